#include "tests/cuda_emulator/src/cublaslt_objects.h"

#include <cstring>

namespace cuda_emulator {
namespace {

template <class T>
Handles<T>& never_destroyed(const char* kind) {
  static auto* const all = new Handles<T>(kind);
  return *all;
}

/// Where an attribute is kept; null for one that is not emulated.
struct Place {
  void* address = nullptr;
  std::size_t bytes = 0;
};

template <class T>
Place place(T& member) {
  return {&member, sizeof(member)};
}

Place find(LtMatmul& matmul, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return place(matmul.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return place(matmul.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return place(matmul.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return place(matmul.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return place(matmul.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return place(matmul.transpose_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
      return place(matmul.fill_mode);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return place(matmul.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return place(matmul.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return place(matmul.bias_batch_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return place(matmul.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return place(matmul.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return place(matmul.aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return place(matmul.aux_batch_stride);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return place(matmul.aux_type);
    default:
      return {};
  }
}

Place find(LtLayout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return place(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return place(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return place(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return place(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return place(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return place(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return place(layout.batch_stride);
    default:
      return {};
  }
}

Place find(LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return place(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return place(preference.workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return place(preference.reduction_schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return place(preference.alignment_a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return place(preference.alignment_b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return place(preference.alignment_c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return place(preference.alignment_d);
    default:
      return {};
  }
}

template <class T, class Attribute>
cublasStatus_t set(const std::shared_ptr<T>& object, Attribute attribute, const void* value,
                   std::size_t bytes) {
  if (object == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Place to = find(*object, attribute);
  if (to.address == nullptr) {
    fatal("cublasLt: attribute " + std::to_string(attribute) + " is not emulated");
  }
  if (bytes != to.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to.address, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Attribute>
cublasStatus_t get(const std::shared_ptr<T>& object, Attribute attribute, void* value,
                   std::size_t bytes, std::size_t* written) {
  if (object == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Place from = find(*object, attribute);
  if (from.address == nullptr) {
    fatal("cublasLt: attribute " + std::to_string(attribute) + " is not emulated");
  }
  if (bytes == 0 ? written == nullptr : value == nullptr || bytes != from.bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes != 0) std::memcpy(value, from.address, bytes);
  if (written != nullptr) *written = from.bytes;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Descriptor>
cublasStatus_t create(Handles<T>& all, Descriptor* descriptor, T object) {
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *descriptor = static_cast<Descriptor>(all.create(std::make_shared<T>(object)));
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(Handles<T>& all, const void* descriptor, const char* call) {
  (void)all.destroy(descriptor, call);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

Handles<LtHandle>& lt_handles() {
  return never_destroyed<LtHandle>("cuBLASLt handle");
}
Handles<LtMatmul>& lt_matmuls() {
  return never_destroyed<LtMatmul>("cuBLASLt matmul descriptor");
}
Handles<LtLayout>& lt_layouts() {
  return never_destroyed<LtLayout>("cuBLASLt matrix layout");
}
Handles<LtPreference>& lt_preferences() {
  return never_destroyed<LtPreference>("cuBLASLt preference");
}

}  // namespace cuda_emulator

using namespace cuda_emulator;
using Lock = std::lock_guard<std::recursive_mutex>;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  const Call call("cublasLtCreate");
  if (call.error() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  return create(lt_handles(), handle, LtHandle{});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const Call call("cublasLtDestroy");
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return destroy(lt_handles(), handle, call.name());
}

size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires a feature absent from the device architecture";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the GPU program failed to execute";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return "unknown status";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  const Lock lock(mutex());
  return create(lt_matmuls(), descriptor,
                LtMatmul{.compute_type = compute_type, .scale_type = scale_type});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  const Lock lock(mutex());
  return destroy(lt_matmuls(), descriptor, "cublasLtMatmulDescDestroy");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  const Lock lock(mutex());
  return set(lt_matmuls().get(descriptor, "cublasLtMatmulDescSetAttribute"), attribute, value,
             bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              size_t bytes, size_t* written) {
  const Lock lock(mutex());
  return get(lt_matmuls().get(descriptor, "cublasLtMatmulDescGetAttribute"), attribute, value,
             bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  const Lock lock(mutex());
  return create(
      lt_layouts(), layout,
      LtLayout{
          .type = static_cast<std::uint32_t>(type), .rows = rows, .columns = columns, .ld = ld});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  const Lock lock(mutex());
  return destroy(lt_layouts(), layout, "cublasLtMatrixLayoutDestroy");
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  const Lock lock(mutex());
  return set(lt_layouts().get(layout, "cublasLtMatrixLayoutSetAttribute"), attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, size_t bytes, size_t* written) {
  const Lock lock(mutex());
  return get(lt_layouts().get(layout, "cublasLtMatrixLayoutGetAttribute"), attribute, value, bytes,
             written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  const Lock lock(mutex());
  return create(lt_preferences(), preference, LtPreference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  const Lock lock(mutex());
  return destroy(lt_preferences(), preference, "cublasLtMatmulPreferenceDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  const Lock lock(mutex());
  return set(lt_preferences().get(preference, "cublasLtMatmulPreferenceSetAttribute"), attribute,
             value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const Lock lock(mutex());
  return get(lt_preferences().get(preference, "cublasLtMatmulPreferenceGetAttribute"), attribute,
             value, bytes, written);
}
