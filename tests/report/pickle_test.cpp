// Bytes by hand; that Python reads them is tests/apps/snapshot_test.py's.
#include <gtest/gtest.h>

#include "eratos/report/pickle.h"

namespace eratos::report {
namespace {

using std::string_literals::operator""s;

TEST(Pickle, WritesTheHeadersExample) {
  Pickle p;
  p.begin_dict();
  p.string("a");
  p.begin_list();
  p.integer(1);
  p.end_item();
  p.end_dict();
  EXPECT_EQ(p.finish(),
            "\x80\x02}(X\x01\0\0\0aq\0]K\x01"
            "au."s);
}

TEST(Pickle, IntegersTakeTheirShortestForm) {
  Pickle p;
  for (const std::int64_t n :
       {std::int64_t{255}, std::int64_t{256}, std::int64_t{-1}, std::int64_t{0x7f0000000000}}) {
    p.integer(n);
  }
  EXPECT_EQ(p.finish(), "\x80\x02K\xffM\0\x01J\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\x7f\0\0."s);
}

TEST(Pickle, AStringIsWrittenOnce) {
  Pickle p;
  p.string("x");
  p.string("x");
  EXPECT_EQ(p.finish(), "\x80\x02X\x01\0\0\0xq\0h\0."s);
}

TEST(Pickle, TheMemoOutgrowsAByte) {
  Pickle p;
  std::int32_t last = 0;
  for (int i = 0; i < 257; ++i) {
    p.integer(0);
    last = p.remember();
  }
  EXPECT_EQ(last, 256);
  p.refer(last);
  const std::string all = p.finish();
  EXPECT_EQ(all.substr(all.size() - 11), "r\0\x01\0\0j\0\x01\0\0."s);
}

}  // namespace
}  // namespace eratos::report
