#include "core/format/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/complaint.h"

namespace shardscope::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CsvTable parsed(std::string_view text) { return CsvTable::parse(text, "runs.csv"); }

std::string complaint(std::string_view text) {
  return complaint_of([&] { parsed(text); });
}

TEST(CsvReader, FindsFieldsByTheHeadersNames) {
  const CsvTable table = parsed("gpus,model\n8,gpt2\n16,llama\n");
  EXPECT_THAT(table.columns(), ElementsAre("gpus", "model"));
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.field(1, *table.column("model")), "llama");
  EXPECT_EQ(table.column("seq"), std::nullopt);
}

TEST(CsvReader, QuotesHoldCommasQuotesAndLineEnds) {
  const CsvTable table = parsed("a,b\n\"x, \"\"y\"\"\nz\",2\n3,4\n");
  EXPECT_EQ(table.field(0, 0), "x, \"y\"\nz");
  EXPECT_EQ(table.field(0, 1), "2");
  EXPECT_EQ(table.where(1), "runs.csv:4");
}

TEST(CsvReader, TakesWhatSpreadsheetsWrite) {
  const CsvTable table = parsed(
      "\xef\xbb\xbf"
      "a,b\r\n 1 ,\"2\"\r\n\r\n3,4");
  EXPECT_EQ(table.columns().front(), "a");
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.field(0, 0), "1");
  EXPECT_EQ(table.field(0, 1), "2");
  EXPECT_EQ(table.field(1, 1), "4");
}

TEST(CsvReader, AShortRowEndsInBlanks) { EXPECT_EQ(parsed("a,b,c\n1\n").field(0, 2), ""); }

TEST(CsvReader, SaysWhereItIsNoTable) {
  EXPECT_THAT(complaint(""), HasSubstr("runs.csv: is empty"));
  EXPECT_THAT(complaint("a,a\n"), HasSubstr("runs.csv:1: column \"a\" stands there twice"));
  EXPECT_THAT(complaint("a,b\n1,2\n1,2,3\n"),
              HasSubstr("runs.csv:3: more fields than the header's 2 columns"));
  EXPECT_THAT(complaint("a\n\n\"x\n"), HasSubstr("runs.csv:3: a quote that does not end"));
  EXPECT_THAT(complaint("a\n\"x\"y\n"), HasSubstr("runs.csv:2: text behind a closing quote"));
  EXPECT_THAT(complaint("a\n\xff\n"), HasSubstr("no UTF-8"));
  EXPECT_THAT(complaint(std::string(2000, ',')), HasSubstr("more than 1000 columns"));
}

}  // namespace
}  // namespace shardscope::testing
