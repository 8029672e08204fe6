// A measured training run as somebody published it: a row of a CSV, by its header's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/format/csv_reader.h"
#include "sim/validate/published_experts.h"

namespace shardscope {

/// What a row states; a blank field is not known, and texts are then "". Columns may stand in any
/// order, and any may be missing.
struct PublishedRow {
  int number = 0;  ///< 1: the first below the header
  std::string source, model, gpu, strategy, precision, checkpointing, offload, compile, attention,
      notes;
  std::optional<double> parameters_billions;
  std::optional<std::int64_t> hidden, layers, heads, kv_heads, ffn, vocabulary, seq;
  std::optional<ExpertShape> experts;  ///< `ffn` is then that of layers without experts
  std::optional<LatentShape> latents;
  bool seq_in_notes = false;  ///< `seq` is a default that the notes name
  std::optional<std::int64_t> gpus, gpus_per_node, tensor_parallel, pipeline_parallel, shards;
  std::optional<std::int64_t> virtual_stages;          ///< of a pipeline's rank; no column
  std::optional<std::int64_t> micro_batch;             ///< sequences
  std::optional<std::int64_t> global_batch;            ///< sequences of a step, of all ranks
  std::optional<std::int64_t> accumulate;              ///< micro-batches of a step
  std::optional<double> tokens_per_s, tflops, step_s;  ///< rates: of one GPU
  std::string network_notes;  ///< notes that a network may stand in, its own or a neighbour's
  std::string unreadable;     ///< why a field could not be taken: "hidden: ..."; "": all could
};

/// "mosaicml/llm-foundry" of "mosaicml/llm-foundry scripts/train/benchmarking/README.md @8c8dd48".
std::string repository_of(const PublishedRow& row);

/// Numbers out of range and words in the place of numbers make a row unreadable, and no Error.
/// Throws Error where the table has no column that a run could be told from.
std::vector<PublishedRow> published_rows(const CsvTable& table);

}  // namespace shardscope
