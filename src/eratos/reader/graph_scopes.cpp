#include "eratos/reader/graph_scopes.h"

#include <initializer_list>

namespace eratos::reader {

bool add_graph_scope(std::string_view scope, job::ModuleSet& out) {
  using ops::Module;
  const auto add = [&](std::initializer_list<Module> modules) {
    for (const Module m : modules) out.set(static_cast<std::size_t>(m));
    return true;
  };
  if (scope == "attn") {
    return add({Module::norm, Module::qkv, Module::mla_down, Module::mla_up, Module::rotary,
                Module::core_attention, Module::attention_out, Module::residual});
  }
  if (scope == "mamba") {
    return add({Module::norm, Module::mixer_in, Module::mixer_gate, Module::convolution,
                Module::scan, Module::mixer_out, Module::residual});
  }
  if (scope == "mlp") return add({Module::mlp_in, Module::activation, Module::mlp_out});
  // Shared experts run beside the router.
  if (scope == "moe_router") return add({Module::router, Module::shared_expert});
  if (scope == "moe_preprocess") return add({Module::dispatch});
  return false;
}

job::ModuleSet all_graph_scopes() {
  job::ModuleSet out;
  for (const std::string_view scope : {"attn", "mamba", "mlp", "moe_router", "moe_preprocess"}) {
    add_graph_scope(scope, out);
  }
  return out;
}

}  // namespace eratos::reader
