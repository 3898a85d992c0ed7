#include "eratos/text/csv.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/text/file.h"
#include "support.h"

namespace eratos::text {
namespace {

TEST(Csv, RowsKnowTheirLines) {
  const auto t = parse_csv(
      "id,tp,note\r\n"
      "run-1,8,\"two\r\nlines, and a \"\"quote\"\"\"\r\n"
      "\r\n"
      "run-2,,\r\n"
      "\"\",\"4\", spaced ",
      "runs.csv");
  ASSERT_TRUE(t) << faults_of(t);
  EXPECT_EQ(t->header(), (std::vector<std::string>{"id", "tp", "note"}));
  ASSERT_EQ(t->rows(), 3u);
  EXPECT_EQ(t->line(0), 2);
  EXPECT_EQ(t->line(1), 5);
  EXPECT_EQ(t->line(2), 6);
  EXPECT_EQ(t->cell(0, 0), "run-1");
  EXPECT_EQ(t->cell(0, *t->column("tp")), "8");
  EXPECT_EQ(t->cell(0, 2), "two\r\nlines, and a \"quote\"");
  EXPECT_EQ(t->cell(1, 1), "");
  EXPECT_EQ(t->cell(1, 2), "");
  EXPECT_EQ(t->cell(2, 0), "");
  EXPECT_EQ(t->cell(2, 1), "4");
  EXPECT_EQ(t->cell(2, 2), " spaced ");
  EXPECT_EQ(to_text({t->where(1), "x", "y"}), "runs.csv:5: error: x; y");
}

TEST(Csv, ColumnsAreFoundByName) {
  const auto t = parse_csv("\xEF\xBB\xBFid,seq_len\n", "runs.csv");
  ASSERT_TRUE(t) << faults_of(t);
  EXPECT_EQ(t->rows(), 0u);
  EXPECT_EQ(t->column("id"), 0u);
  EXPECT_EQ(t->column("tp"), std::nullopt);
  EXPECT_EQ(t->require_column("seq_len"), 1u);
  EXPECT_EQ(faults_of(t->require_column("seq_lne")),
            "runs.csv:1: error: no column `seq_lne`; did you mean `seq_len`?");
}

TEST(Csv, FaultsNameLineAndColumn) {
  const auto faults_in = [](const std::string& text) {
    return faults_of(parse_csv(text, "r.csv"));
  };
  EXPECT_EQ(faults_in(""),
            "r.csv:1:1: error: the table is empty; begin with a row of column names");
  EXPECT_EQ(faults_in("a,b\n1\n1,2\n1,2,3\n"),
            "r.csv:2:2: error: this row has 1 fields, the header has 2; give one field a column\n"
            "r.csv:4:5: error: this row has 3 fields, the header has 2; give one field a column");
  // Places of fields that hold line breaks, and of a row that ends in CRLF.
  EXPECT_EQ(faults_in("a,b\r\n\"1\n2\",3,\"4\n5\"\r\n6\r\n"),
            "r.csv:3:6: error: this row has 3 fields, the header has 2; give one field a column\n"
            "r.csv:5:2: error: this row has 1 fields, the header has 2; give one field a column");
  EXPECT_EQ(faults_in("a,b,a\n"), "r.csv:1:5: error: column `a` is given twice; keep one of them");
  EXPECT_EQ(faults_in("a,b\n1,x\"y\n"),
            "r.csv:2:4: error: a quote inside a field that is not quoted; "
            "quote the whole field and double its quotes");
  EXPECT_EQ(faults_in("a,b\n1,\"x\"y\n"),
            "r.csv:2:6: error: text after the closing quote of a field; "
            "double a quote that belongs to the field");
  EXPECT_EQ(faults_in("a,b\n1,\"x\n2,3\n"),
            "r.csv:2:3: error: this quote is never closed; close the field with a quote");
  EXPECT_EQ(faults_in("a,b\n1,\xFF\n"),
            "r.csv:2:3: error: not a text file: byte 0xFF at offset 6 is not UTF-8; "
            "give a text file in UTF-8");
}

TEST(Csv, LargeTablesAreReadAndLargerOnesRefused) {
  std::string text = "a,b,c,d\n";
  while (text.size() < 20'000'000) text += "1,22,\"333\",4444\n";
  const StopWatch watch;
  const auto t = parse_csv(text, "r.csv");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->cell(t->rows() - 1, 2), "333");
  EXPECT_LT(watch.seconds(), 5.0);
  EXPECT_EQ(faults_of(parse_csv(text, "r.csv", 1000)),
            "r.csv: error: too large: " + std::to_string(text.size()) +
                " bytes, the limit is 1000; is this the right file?");
}

TEST(Csv, FilesAreRead) {
  const Scratch scratch;
  ASSERT_TRUE(write_file(scratch.path("r.csv"), "a\n1\n"));
  EXPECT_EQ(parse_csv_file(scratch.path("r.csv"))->rows(), 1u);
  EXPECT_EQ(faults_of(parse_csv_file(scratch.path("s.csv"))),
            scratch.path("s.csv") + ": error: no such file; did you mean `r.csv`?");
}

TEST(Csv, FieldsAreWrittenAsTheyAreRead) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"it\""), "\"say \"\"it\"\"\"");
  const std::string odd = "a,\"b\"\r\nc";
  const auto table = parse_csv("x,y\n" + csv_field(odd) + ",1\n", "odd.csv");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->cell(0, 0), odd);
}

}  // namespace
}  // namespace eratos::text
