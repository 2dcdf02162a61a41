#include <climits>
#include <cmath>
#include <limits>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"

namespace demi::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Atomics, ReturnTheOldValue) {
  int i = 5;
  unsigned u = 5;
  unsigned long long l = 5;
  float f = 0.5f;
  double d = 0.5;
  EXPECT_EQ(atomicAdd(&i, -7), 5);
  EXPECT_EQ(i, -2);
  EXPECT_EQ(atomicAdd(&f, 1.0f), 0.5f);
  EXPECT_EQ(f, 1.5f);
  EXPECT_EQ(atomicAdd(&d, 1.0), 0.5);
  EXPECT_EQ(atomicAdd(&l, 1ull), 5u);
  EXPECT_EQ(atomicSub(&u, 2u), 5u);
  EXPECT_EQ(atomicMax(&i, 4), -2);
  EXPECT_EQ(atomicMax(&i, 3), 4);
  EXPECT_EQ(atomicMin(&i, -1), 4);
  EXPECT_EQ(i, -1);
  EXPECT_EQ(atomicCAS(&u, 3u, 10u), 3u);
  EXPECT_EQ(atomicCAS(&u, 3u, 11u), 10u);
  EXPECT_EQ(atomicExch(&u, 6u), 10u);
  EXPECT_EQ(atomicExch(&f, 2.5f), 1.5f);
  EXPECT_EQ(atomicOr(&u, 9u), 6u);
  EXPECT_EQ(atomicAnd(&u, 3u), 15u);
  EXPECT_EQ(atomicXor(&u, 1u), 3u);
  EXPECT_EQ(u, 2u);
  EXPECT_EQ(atomicInc(&u, 2u), 2u);
  EXPECT_EQ(u, 0u);
  EXPECT_EQ(atomicDec(&u, 7u), 0u);
  EXPECT_EQ(u, 7u);
}

TEST(Atomics, IntegersWrapAround) {
  int i = INT_MAX;
  EXPECT_EQ(atomicAdd(&i, 1), INT_MAX);
  EXPECT_EQ(i, INT_MIN);
}

TEST(Intrinsics, MinimumAndMaximumIgnoreNaN) {
  EXPECT_EQ(min(2, 1), 1);
  EXPECT_EQ(max(2ll, 1ll), 2);
  EXPECT_EQ(min(kNaN, 1.0f), 1.0f);
  EXPECT_EQ(max(1.0, static_cast<double>(kNaN)), 1.0);
}

TEST(Intrinsics, ConversionsToIntegersSaturate) {
  EXPECT_EQ(__float2int_rn(2.5f), 2);
  EXPECT_EQ(__float2int_rn(3.5f), 4);
  EXPECT_EQ(__float2int_rz(-2.7f), -2);
  EXPECT_EQ(__float2int_rd(-2.1f), -3);
  EXPECT_EQ(__float2int_ru(2.1f), 3);
  EXPECT_EQ(__float2int_rn(3e9f), INT_MAX);
  EXPECT_EQ(__float2int_rn(-kInfinity), INT_MIN);
  EXPECT_EQ(__float2int_rn(kNaN), 0);
  EXPECT_EQ(__float2uint_rn(-1.0f), 0u);
  EXPECT_EQ(__float2uint_rn(5e9f), UINT_MAX);
  EXPECT_EQ(__float2uint_rn(4e9f), 4000000000u);
  EXPECT_EQ(__double2ll_rn(1e300), LLONG_MAX);
  EXPECT_EQ(__double2ull_rn(1.8e19), 18000000000000000000ull);
  EXPECT_EQ(__half2int_rn(__float2half(7.0f)), 7);
}

TEST(Intrinsics, BitsAreCounted) {
  EXPECT_EQ(__popc(0xf0u), 4);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffsll(1ll << 40), 41);
  EXPECT_EQ(__umulhi(0x80000000u, 6u), 3u);
  EXPECT_EQ(__mulhi(-2, 1), -1);
  EXPECT_EQ(__umul64hi(1ull << 63, 6), 3u);
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__int_as_float(0x3f800000), 1.0f);
}

TEST(Intrinsics, FunctionsOfFloat) {
  EXPECT_FLOAT_EQ(__expf(1.0f), 2.7182818f);
  EXPECT_FLOAT_EQ(__logf(2.7182818f), 1.0f);
  EXPECT_FLOAT_EQ(rsqrtf(4.0f), 0.5f);
  EXPECT_FLOAT_EQ(__fdividef(1.0f, 4.0f), 0.25f);
  EXPECT_EQ(__saturatef(2.0f), 1.0f);
  EXPECT_EQ(__saturatef(kNaN), 0.0f);
  EXPECT_FLOAT_EQ(normcdff(0.0f), 0.5f);
  EXPECT_FLOAT_EQ(normcdff(1.0f), 0.8413447f);
  float sine = 0, cosine = 0;
  sincospif(0.5f, &sine, &cosine);
  EXPECT_FLOAT_EQ(sine, 1.0f);
  EXPECT_NEAR(cosine, 0.0f, 1e-7f);
}

TEST(Intrinsics, FunctionsOfHalf) {
  const __half two = __float2half(2.0f);
  EXPECT_EQ(__half2float(__hfma(two, two, two)), 6.0f);
  EXPECT_EQ(__half2float(hsqrt(__float2half(9.0f))), 3.0f);
  EXPECT_EQ(__half2float(hrcp(two)), 0.5f);
  EXPECT_EQ(__bfloat162float(hrsqrt(__float2bfloat16(4.0f))), 0.5f);
  // One rounding: 1 + 2^-11 · (1 + 2^-10) is more than half way to the next number.
  const __half factor = __float2half(1.0f + std::ldexp(1.0f, -10));
  const __half sum = __hfma(__float2half(std::ldexp(1.0f, -11)), factor, __float2half(1.0f));
  EXPECT_EQ(__half2float(sum), 1.0f + std::ldexp(1.0f, -10));
}

}  // namespace
}  // namespace demi::testing
