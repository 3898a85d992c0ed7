// Which way to cut Llama 3.1 70B over 64 H100 is legal, fits, and is fastest?
#include <cstdio>
#include <memory>

#include <eratos/projection/projection.h>
#include <eratos/reader/catalogue.h>
#include <eratos/reader/default_job.h>

namespace {

int report(const eratos::Diagnostics& faults) {
  for (const eratos::Diagnostic& fault : faults) {
    std::fprintf(stderr, "%s\n", eratos::to_text(fault).c_str());
  }
  return 2;
}

}  // namespace

int main() {
  // By name, as `eratos list` shows them. A Result holds the value, or every fault at once.
  const auto model = eratos::reader::load_model("llama3.1-70b");
  if (!model) return report(model.error());
  const auto cluster = eratos::reader::load_cluster("h100-sxm-8x8");
  if (!cluster) return report(cluster.error());
  const auto calibration = eratos::reader::load_calibration(cluster->accelerator.name);
  if (!calibration) return report(calibration.error());

  // A job is a plain struct. This one starts from the defaults of `eratos project MODEL`.
  const auto read = eratos::reader::default_job(*model, "llama", "example");
  if (!read) return report(read.error());
  eratos::job::JobSpec job = read->job;
  job.cluster = *cluster;
  job.batch = {.micro = 1, .global = 512, .sequence = 8192};

  struct Cut {
    int tp, pp;
  };
  const eratos::projection::Options options;
  const auto workspace = eratos::projection::make_workspace();  // one a thread, used again
  const auto checked = std::make_unique<eratos::job::CheckedJob>();
  for (const Cut cut : {Cut{3, 4}, Cut{1, 4}, Cut{4, 4}, Cut{8, 2}, Cut{8, 4}}) {
    job.parallel.tp = cut.tp;
    job.parallel.pp = cut.pp;
    job.parallel.sequence_parallel = cut.tp > 1;
    std::printf("tp %d pp %d: ", cut.tp, cut.pp);

    // Legal? `checked` points at `job`, so check again after each change.
    const eratos::Diagnostics faults = eratos::job::check(job, *checked);
    if (!faults.empty()) {
      std::printf("not legal, %s\n", faults.front().message.c_str());
      continue;
    }

    // Cheap and exact in memory; its time is a bound that project() never undercuts.
    const auto screen = eratos::projection::screen(*checked, *calibration, options, *workspace);
    if (!screen.fits) {
      std::printf("needs %.0f GiB, does not fit\n", screen.device_peak.value / eratos::kGiB);
      continue;
    }

    const auto answer = eratos::projection::project(*checked, *calibration, options, *workspace);
    std::printf("%.0f GiB, step %.1f s, %.0f tokens/s/GPU, MFU %.0f %%, bubble %.0f %%\n",
                answer.memory.device_peak.value / eratos::kGiB, answer.time.step.value,
                answer.throughput.tokens_per_s_per_gpu, 100 * answer.throughput.mfu,
                100 * answer.time.bubble_ratio());
  }
}
