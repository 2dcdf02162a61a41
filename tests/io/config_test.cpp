#include <demi/config.h>

#include <limits>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

using demi::testing::message_of;

namespace demi {
namespace {

Config example() {
  return Config::object({{"name", "dense"},
                         {"units", 10},
                         {"rate", 0.1},
                         {"use_bias", true},
                         {"seed", nullptr},
                         {"kernel_size", Config::integers(std::vector<int>{3, 5})},
                         {"inner", Config::object({{"class_name", "L2"}})}});
}

TEST(Config, ReadsValuesByKind) {
  const Config config = example();
  EXPECT_EQ(config.at("name").as_string(), "dense");
  EXPECT_EQ(config.at("units").as_integer(), 10);
  EXPECT_EQ(config.at("units").as_number(), 10.0);
  EXPECT_EQ(config.at("rate").as_number(), 0.1);
  EXPECT_TRUE(config.at("use_bias").as_bool());
  EXPECT_TRUE(config.at("seed").is_null());
  EXPECT_EQ(config.at("kernel_size").as_list()[1].as_integer(), 5);
  EXPECT_EQ(config.at("inner").at("class_name").as_string(), "L2");
  EXPECT_EQ(config.find("absent"), nullptr);
}

TEST(Config, WritesKeysInOrder) {
  EXPECT_EQ(example().to_json(),
            R"({"name":"dense","units":10,"rate":0.1,"use_bias":true,"seed":null,)"
            R"("kernel_size":[3,5],"inner":{"class_name":"L2"}})");
}

TEST(Config, SurvivesJson) {
  Config config = example();
  config.set("tiny", std::numeric_limits<double>::denorm_min()).set("third", 1.0 / 3);
  config.set("large", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Config::parse(config.to_json()), config);
  EXPECT_EQ(Config::parse(config.to_json(2)), config);
}

TEST(Config, TellsIntegersFromNumbers) {
  EXPECT_TRUE(Config::parse("1").is_integer());
  EXPECT_FALSE(Config::parse("1.0").is_integer());
  EXPECT_FALSE(Config(1) == Config(1.0));
}

TEST(Config, SetReplacesInPlace) {
  Config config = example();
  config.set("units", 3);
  EXPECT_EQ(config.entries()[1].second.as_integer(), 3);
  EXPECT_EQ(config.entries().size(), example().entries().size());
}

TEST(Config, ShowsWhatItFoundInstead) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { (void)example().at("name").as_integer(); }),
            "[config] expected an integer. Received: \"dense\".");
  EXPECT_EQ(message_of<std::invalid_argument>([] {
              (void)Config::object({{"a", 1}}).at("b");
            }),
            "[config] expected an object with 'b'. Received: {\"a\":1}.");
  EXPECT_THROW((void)Config(std::numeric_limits<double>::infinity()).to_json(),
               std::invalid_argument);
}

TEST(Config, RefusesBrokenJson) {
  EXPECT_THROW((void)Config::parse("{\"a\": "), std::invalid_argument);
  EXPECT_THROW((void)Config::parse(""), std::invalid_argument);
  EXPECT_THROW((void)Config::parse(std::string(100000, '[')), std::invalid_argument);
}

}  // namespace
}  // namespace demi
