// What a store knows of one search, ask by ask.
//
// Screens and bounds are kept by the batch, under a digest of the search's space and of all that is
// asked: the same batch comes again when the same space is searched again, whatever method, number
// of threads or length of the list of answers. A projection is kept by its job, so that any other
// space that holds it finds it.
//
// Worked example: a search that was killed asks the same batches when it is run again, since a
// method depends on nothing but its answers, and is told the same, up to the last batch that was
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/space.h"
#include "eratos/store/digest.h"
#include "eratos/store/store.h"

namespace eratos::store {

Identity identity_of(const search::Space& space, const calibration::Calibration& calibration,
                     const projection::Options& options);

// What keeps the nearest of `records`, which are not empty, from being this search: "the nearest
// there differs in calibration, memory margin"; "" when it is this search.
std::string differences(const Identity& identity, const std::vector<SearchRecord>& records);

class StoredAnswers {
 public:
  // All outlive it.
  StoredAnswers(Store& store, const search::Space& space,
                const calibration::Calibration& calibration, const projection::Options& options);

  // Fills what is known and returns the places of the rest.
  std::vector<std::size_t> find(std::span<const search::Ask> asks, std::span<search::Tell> tells);
  // Keeps what find() did not know: all of `tells` is filled now.
  void keep(std::span<const search::Ask> asks, std::span<const search::Tell> tells);

  std::uint64_t found() const { return found_; }
  std::uint64_t asked() const { return asked_; }
  // Answers that were there but damaged: made again.
  std::uint64_t damaged() const { return damaged_; }

 private:
  Digest key_of_screens(const std::vector<search::Ask>& asks) const;
  Digest key_of_projection(const search::Candidate& at);

  Store& store_;
  const search::Space& space_;
  std::string world_;   // model, calibration, options
  std::string search_;  // and the space
  search::Candidate at_;
  job::JobSpec job_;  // at_ as a job
  // Of the batch between find() and keep().
  bool screens_missing_ = false;
  Digest screens_key_;
  std::vector<std::pair<std::size_t, Digest>> projections_missing_;
  std::uint64_t found_ = 0;
  std::uint64_t asked_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace eratos::store
