#include "eratos/store/machine_memory.h"

#include <utility>

#ifdef ERATOS_SQLITE
#include <sys/stat.h>

#include "eratos/store/sqlite.h"
#endif

namespace eratos::store {

#ifndef ERATOS_SQLITE

tl::expected<std::unique_ptr<MachineMemory>, Trouble> MachineMemory::open(const std::string& file) {
  return tl::make_unexpected(
      Trouble{Trouble::Kind::environment,
              {.where = {.file = file},
               .message = "this eratos was built without SQLite and remembers nothing",
               .cure = "build it where libsqlite3-dev and zlib1g-dev (Debian) are installed"}});
}

#else

namespace {

constexpr int kApplication = 0x4552414d;  // "ERAM": sqlite.org/fileformat2.html, application_id
constexpr int kSchema = 1;
constexpr int kPatience = 10'000;  // ms for a lock of another process

constexpr const char* kMake =
    "CREATE TABLE IF NOT EXISTS machine(model BLOB NOT NULL, machine BLOB NOT NULL, "
    "fingerprint TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(model, machine)) WITHOUT ROWID;";

Trouble trouble(Trouble::Kind kind, const std::string& file, std::string message) {
  return {kind,
          {.where = {.file = file},
           .message = std::move(message),
           .cure = "give --memory another name"}};
}

Trouble trouble_of(int code, const std::string& file) {
  const int what = code & 0xff;
  if (what == SQLITE_NOTADB || what == SQLITE_CORRUPT) {
    return trouble(Trouble::Kind::bad_file, file, "is no memory of tuning runs, or damaged");
  }
  return trouble(Trouble::Kind::environment, file,
                 std::string("cannot be read and written: ") + sqlite3_errstr(code));
}

void bind(sqlite3_stmt* s, const MachineKey& key) {
  int at = 1;
  for (const Digest* d : {&key.model, &key.machine}) {
    const std::string_view bytes = d->bytes();
    sqlite3_bind_blob(s, at++, bytes.data(), static_cast<int>(bytes.size()), SQLITE_TRANSIENT);
  }
}

void bind_text(sqlite3_stmt* s, int at, const std::string& text) {
  sqlite3_bind_text(s, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

std::string column(sqlite3_stmt* s, int i) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, i));
  return text == nullptr ? std::string()
                         : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(s, i)));
}

class File final : public MachineMemory {
 public:
  File(Database db, std::string file) : db_(std::move(db)), file_(std::move(file)) {}

  tl::expected<std::optional<MachineRecord>, Trouble> last(const MachineKey& key) override {
    const Statement s = prepare(
        db_.get(), "SELECT record, fingerprint FROM machine WHERE model = ?1 AND machine = ?2");
    if (s == nullptr) return tl::make_unexpected(trouble_of(sqlite3_errcode(db_.get()), file_));
    bind(s.get(), key);
    const int code = sqlite3_step(s.get());
    if (code == SQLITE_DONE) return std::optional<MachineRecord>{};
    if (code != SQLITE_ROW) return tl::make_unexpected(trouble_of(code, file_));
    return std::optional<MachineRecord>(MachineRecord{column(s.get(), 0), column(s.get(), 1)});
  }

  tl::expected<void, Trouble> keep(const MachineKey& key, const MachineRecord& record) override {
    const Statement s =
        prepare(db_.get(),
                "INSERT OR REPLACE INTO machine(model, machine, fingerprint, record) "
                "VALUES(?1, ?2, ?3, ?4)");
    if (s == nullptr) return tl::make_unexpected(trouble_of(sqlite3_errcode(db_.get()), file_));
    bind(s.get(), key);
    bind_text(s.get(), 3, record.fingerprint);
    bind_text(s.get(), 4, record.text);
    const int code = sqlite3_step(s.get());
    if (code != SQLITE_DONE) return tl::make_unexpected(trouble_of(code, file_));
    return {};
  }

 private:
  Database db_;
  std::string file_;
};

}  // namespace

tl::expected<std::unique_ptr<MachineMemory>, Trouble> MachineMemory::open(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return tl::make_unexpected(trouble(Trouble::Kind::usage, file, "is a folder"));
  }
  sqlite3* raw = nullptr;
  int code =
      sqlite3_open_v2(file.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database db(raw);
  if (code != SQLITE_OK) return tl::make_unexpected(trouble_of(code, file));
  sqlite3_busy_timeout(db.get(), kPatience);
  const int application = number_of(db.get(), "PRAGMA application_id", code);
  if (code != SQLITE_OK) return tl::make_unexpected(trouble_of(code, file));
  const int tables = number_of(db.get(), "SELECT count(*) FROM sqlite_schema", code);
  const int schema = number_of(db.get(), "PRAGMA user_version", code);
  if (tables > 0 && application != kApplication) {
    return tl::make_unexpected(
        trouble(Trouble::Kind::bad_file, file, "is the SQLite file of something else"));
  }
  if (schema > kSchema) {
    return tl::make_unexpected(
        trouble(Trouble::Kind::bad_file, file, "was written by a newer eratos"));
  }
  if (tables == 0) {
    const std::string make = std::string("BEGIN IMMEDIATE;") + kMake +
                             "PRAGMA application_id = " + std::to_string(kApplication) +
                             "; PRAGMA user_version = " + std::to_string(kSchema) + "; COMMIT;";
    code = sqlite3_exec(db.get(), make.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return tl::make_unexpected(trouble_of(code, file));
  }
  return std::make_unique<File>(std::move(db), file);
}

#endif

}  // namespace eratos::store
