#include "eratos/store/store.h"

#include <utility>

#include <fmt/format.h>

#ifdef ERATOS_SQLITE
#include <chrono>
#include <cstddef>

#include <sys/stat.h>

#include "eratos/store/bytes.h"
#include "eratos/store/sqlite.h"
#endif

namespace eratos::store {

#ifndef ERATOS_SQLITE

tl::expected<std::unique_ptr<Store>, Trouble> Store::open(const std::string& file,
                                                          bool /*must_exist*/) {
  return tl::make_unexpected(
      Trouble{Trouble::Kind::environment,
              {.where = {.file = file},
               .message = "this eratos was built without SQLite and keeps no answers",
               .cure = "build it where libsqlite3-dev and zlib1g-dev (Debian) are installed"}});
}

#else

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kApplication = 0x45524154;  // "ERAT" in a file's header: sqlite.org/fileformat2.html
constexpr int kSchema = 1;
constexpr int kPatience = 10'000;  // ms for a lock of another process, at the beginning and the end
constexpr int kShortPatience = 250;  // while a search waits
constexpr auto kEvery = std::chrono::seconds(1);

constexpr const char* kTables =
    "CREATE TABLE search(identity BLOB PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE screens(id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, answers BLOB NOT NULL);"
    "CREATE TABLE projections(key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;";

constexpr const char* kOtherName = "give --store another name";

Trouble faulty(Trouble::Kind kind, const std::string& file, std::string message,
               std::string cure = kOtherName) {
  return {kind, {.where = {.file = file}, .message = std::move(message), .cure = std::move(cure)}};
}

Trouble trouble_of(int code, const std::string& file) {
  using Kind = Trouble::Kind;
  const char* said = sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return faulty(Kind::bad_file, file, "is no store of eratos");
    case SQLITE_CORRUPT:
      return faulty(Kind::bad_file, file, fmt::format("is damaged ({})", said),
                    "delete it, or give --store another name");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return faulty(Kind::environment, file, "another process keeps it locked",
                    "wait for that one, or give --store another name");
    default:
      return faulty(Kind::environment, file,
                    fmt::format("cannot be read and written as a store: {}", said));
  }
}

class File final : public Store {
 public:
  File(Database db, std::string file) : db_(std::move(db)), file_(std::move(file)) {
    get_screens_ = prepare(db_.get(), "SELECT answers FROM screens WHERE key = ?1");
    get_projection_ = prepare(db_.get(), "SELECT answer FROM projections WHERE key = ?1");
    put_screens_ =
        prepare(db_.get(), "INSERT OR REPLACE INTO screens(key, answers) VALUES(?1, ?2)");
    put_projection_ =
        prepare(db_.get(), "INSERT OR REPLACE INTO projections(key, answer) VALUES(?1, ?2)");
    put_search_ = prepare(db_.get(), "INSERT OR IGNORE INTO search(identity, said) VALUES(?1, ?2)");
    if (put_search_ == nullptr || put_projection_ == nullptr || put_screens_ == nullptr) {
      fail(sqlite3_errcode(db_.get()));
    }
  }

  ~File() override { flush(true); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::vector<SearchRecord> searches() override {
    std::vector<SearchRecord> out;
    if (trouble_) return out;
    const Statement s = prepare(db_.get(), "SELECT identity, said FROM search");
    int code = s == nullptr ? sqlite3_errcode(db_.get()) : SQLITE_ROW;
    while (code == SQLITE_ROW && (code = sqlite3_step(s.get())) == SQLITE_ROW) {
      SearchRecord record;
      if (!from_bytes(column(s.get(), 0), record.identity)) continue;
      record.said = column(s.get(), 1);
      out.push_back(std::move(record));
    }
    if (code != SQLITE_DONE) fail(code);
    return out;
  }

  void add(const SearchRecord& record) override {
    if (trouble_) return;
    const int code = put(put_search_.get(), bytes_of(record.identity), record.said);
    if (code != SQLITE_DONE) fail(code);
  }

  std::optional<std::string> screens(const Digest& key) override {
    return get(get_screens_.get(), key);
  }
  std::optional<std::string> projection(const Digest& key) override {
    return get(get_projection_.get(), key);
  }

  void keep_screens(const Digest& key, std::string packed) override {
    if (!trouble_)
      waiting_.push_back({put_screens_.get(), std::string(key.bytes()), std::move(packed)});
  }
  void keep_projection(const Digest& key, std::string packed) override {
    if (!trouble_) {
      waiting_.push_back({put_projection_.get(), std::string(key.bytes()), std::move(packed)});
    }
  }

  void flush(bool now) override {
    if (trouble_ || waiting_.empty()) return;
    if (!now && Clock::now() < next_) return;
    sqlite3_busy_timeout(db_.get(), now ? kPatience : kShortPatience);
    int code = run(db_.get(), "BEGIN IMMEDIATE");
    for (std::size_t i = 0; i < waiting_.size() && code == SQLITE_OK; ++i) {
      code = put(waiting_[i].statement, waiting_[i].key, waiting_[i].packed);
      if (code == SQLITE_DONE) code = SQLITE_OK;
    }
    if (code == SQLITE_OK) code = run(db_.get(), "COMMIT");
    // Waits a little longer each time somebody else has it.
    const bool busy = (code & 0xff) == SQLITE_BUSY;
    next_ = Clock::now() + (busy ? 4 * kEvery : kEvery);
    if (code == SQLITE_OK) {
      waiting_.clear();
      return;
    }
    const Trouble what = trouble_of(code, file_);
    if (sqlite3_get_autocommit(db_.get()) == 0) run(db_.get(), "ROLLBACK");
    if (!busy || now) trouble_ = what;
  }

  const std::optional<Trouble>& trouble() const override { return trouble_; }

 private:
  struct Waiting {
    sqlite3_stmt* statement = nullptr;
    std::string key;
    std::string packed;
  };

  static std::string column(sqlite3_stmt* s, int i) {
    const void* data = sqlite3_column_blob(s, i);
    return data == nullptr ? std::string()
                           : std::string(static_cast<const char*>(data),
                                         static_cast<std::size_t>(sqlite3_column_bytes(s, i)));
  }

  void fail(int code) {
    if (!trouble_) trouble_ = trouble_of(code, file_);
  }

  std::optional<std::string> get(sqlite3_stmt* s, const Digest& key) {
    if (trouble_) return std::nullopt;
    const std::string_view k = key.bytes();
    sqlite3_bind_blob(s, 1, k.data(), static_cast<int>(k.size()), SQLITE_STATIC);
    const int code = sqlite3_step(s);
    std::optional<std::string> out;
    if (code == SQLITE_ROW) {
      out = column(s, 0);
    } else if (code != SQLITE_DONE && (code & 0xff) != SQLITE_BUSY) {
      fail(code);
    }
    sqlite3_reset(s);
    return out;
  }

  static int put(sqlite3_stmt* s, const std::string& key, const std::string& value) {
    sqlite3_bind_blob(s, 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
    sqlite3_bind_blob(s, 2, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
    const int code = sqlite3_step(s);
    sqlite3_reset(s);
    return code;
  }

  Database db_;
  std::string file_;
  Statement get_screens_, get_projection_, put_screens_, put_projection_, put_search_;
  std::vector<Waiting> waiting_;
  Clock::time_point next_ = Clock::now() + kEvery;
  std::optional<Trouble> trouble_;
};

// What stands in the file's header, and whether anything else stands in it: read in one
// transaction, or another process could make the file meanwhile.
struct Header {
  int code = SQLITE_OK;
  int application = 0;
  int schema = 0;
  int tables = 0;
};

Header header_of(sqlite3* db) {
  Header h;
  h.application = number_of(db, "PRAGMA application_id", h.code);
  if (h.code == SQLITE_OK) h.schema = number_of(db, "PRAGMA user_version", h.code);
  if (h.code == SQLITE_OK) h.tables = number_of(db, "SELECT count(*) FROM sqlite_schema", h.code);
  return h;
}

// The file is a store, or has become one.
std::optional<Trouble> settle(sqlite3* db, const std::string& file) {
  Header h;
  h.code = run(db, "BEGIN");
  if (h.code == SQLITE_OK) h = header_of(db);
  if (sqlite3_get_autocommit(db) == 0) run(db, "COMMIT");
  const auto fresh = [&] { return h.application == 0 && h.schema == 0 && h.tables == 0; };
  if (h.code == SQLITE_OK && fresh()) {
    h.code = run(db, "BEGIN IMMEDIATE");
    if (h.code == SQLITE_OK) {
      h = header_of(db);  // another process may have been faster
      if (h.code == SQLITE_OK && fresh()) {
        h.code = run(db, fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; {}",
                                     kApplication, kSchema, kTables));
        h.application = kApplication;
        h.schema = kSchema;
      }
      if (h.code == SQLITE_OK) {
        h.code = run(db, "COMMIT");
      } else {
        const Trouble what = trouble_of(h.code, file);
        run(db, "ROLLBACK");
        return what;
      }
    }
  }
  if (h.code != SQLITE_OK) return trouble_of(h.code, file);
  using Kind = Trouble::Kind;
  if (h.application != kApplication) {
    return faulty(Kind::bad_file, file, "is the SQLite file of another program");
  }
  if (h.schema > kSchema) {
    return faulty(Kind::bad_file, file,
                  fmt::format("was written by a newer eratos (schema {}; this one knows {})",
                              h.schema, kSchema),
                  "use that one, or give --store another name");
  }
  if (sqlite3_db_readonly(db, "main") != 0) {
    return faulty(Kind::environment, file, "cannot be written");
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::unique_ptr<Store>, Trouble> Store::open(const std::string& file,
                                                          bool must_exist) {
  struct stat status {};
  const bool there = ::stat(file.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) {
    return tl::make_unexpected(faulty(Trouble::Kind::usage, file, "is a folder"));
  }
  if (!there && must_exist) {
    return tl::make_unexpected(faulty(Trouble::Kind::bad_file, file,
                                      "no such file: there is nothing to resume",
                                      "leave --resume out to begin"));
  }
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return tl::make_unexpected(trouble_of(code, file));
  sqlite3_extended_result_codes(db.get(), 1);
  sqlite3_busy_timeout(db.get(), kPatience);
  if (auto what = settle(db.get(), file)) return tl::make_unexpected(std::move(*what));
  // Where shared memory is not to be had (network folders) the journal stays: slower, as safe.
  run(db.get(), "PRAGMA journal_mode = WAL");
  run(db.get(), "PRAGMA synchronous = NORMAL");
  auto out = std::make_unique<File>(std::move(db), file);
  if (out->trouble()) return tl::make_unexpected(*out->trouble());
  return out;
}

#endif

}  // namespace eratos::store
