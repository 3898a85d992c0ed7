// A trace on the disk, plain or as a gzip archive, read piece by piece.
#pragma once

#include <memory>
#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/kineto_events.h"

namespace eratos::apps {

// Which kind it is, its first bytes say. `progress`: how far it is, on standard error, from the
// second second on and on a terminal only. Errors: no such file, a folder, unreadable; an archive
// where zlib is missing (then `lacks_zlib` is set).
Result<std::unique_ptr<reader::TraceSource>> open_trace(const std::string& path, bool progress,
                                                        bool& lacks_zlib);

}  // namespace eratos::apps
