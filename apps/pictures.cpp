#include "apps/pictures.h"

#include "apps/exit_code.h"
#include "apps/output.h"

namespace eratos::apps {

int write_pictures(const report::Timeline& t, const Arguments& arguments) {
  struct Kind {
    const char* flag;
    std::string (*draw)(const report::Timeline&, const report::View&);
  };
  for (const Kind& kind : {Kind{"--trace", report::timeline_trace},
                           Kind{"--svg", report::timeline_svg}, Kind{"--html", report::timeline_html}}) {
    if (!arguments.has(kind.flag)) continue;
    const int code = write_named(arguments.value(kind.flag), kind.draw(t, {}), arguments);
    if (code != kAnswered) return code;
  }
  return kAnswered;
}

}  // namespace eratos::apps
