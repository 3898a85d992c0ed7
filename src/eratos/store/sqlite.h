// What the files of this room share of SQLite: handles that close themselves, and one-line
// questions.
#pragma once

#include <memory>
#include <string>

#include <sqlite3.h>

namespace eratos::store {

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};
using Database = std::unique_ptr<sqlite3, Close>;
using Statement = std::unique_ptr<sqlite3_stmt, Close>;

inline int run(sqlite3* db, const std::string& sql) {
  return sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
}

// Null where SQL is refused; sqlite3_errcode(db) says why.
inline Statement prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* out = nullptr;
  sqlite3_prepare_v2(db, sql, -1, &out, nullptr);
  return Statement(out);
}

// A number that one statement returns; `code` tells where there is none.
inline int number_of(sqlite3* db, const char* sql, int& code) {
  const Statement s = prepare(db, sql);
  code = s == nullptr ? sqlite3_errcode(db) : sqlite3_step(s.get());
  if (code != SQLITE_ROW) return 0;
  code = SQLITE_OK;
  return sqlite3_column_int(s.get(), 0);
}

}  // namespace eratos::store
