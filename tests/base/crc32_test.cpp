#include "eratos/base/crc32.h"

#include <gtest/gtest.h>

namespace eratos {
namespace {

// Check value of CRC-32/ISO-HDLC in every catalogue of CRCs.
TEST(Crc32, CheckValue) { EXPECT_EQ(crc32("123456789"), 0xCBF43926U); }

TEST(Crc32, OfNothing) { EXPECT_EQ(crc32(""), 0U); }

}  // namespace
}  // namespace eratos
