// Pieces of HTML that every page is made of, so that all look alike.
#pragma once

#include <string>
#include <string_view>

#include "eratos/report/table.h"

namespace eratos::report {

// Text as it may stand in HTML and XML, attributes included. Control characters, which XML forbids,
// become U+FFFD.
std::string escaped(std::string_view text);

// The content of <style>: colours for light and dark, tables that scroll inside their own box.
std::string_view page_style();

std::string table_html(const Table& table);

}  // namespace eratos::report
