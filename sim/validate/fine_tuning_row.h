// One published fine-tuning run: how it was trained, and the memory that it took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/format/csv_reader.h"

namespace shardscope {

struct FineTuningRow {
  int number = 0;  ///< 1 is the first
  std::string source, model, method, precision, gpu, strategy, checkpointing, optimizer,
      memory_kind, notes;
  std::optional<std::int64_t> gpus, micro_batch, seq;
  std::optional<double> peak_gib;  ///< as measured; none: not stated, or it ran out of memory
  bool out_of_memory = false;
  std::optional<double> tokens_per_s;  ///< of one GPU, as stated
  std::string unreadable;              ///< what of the row is no value; "" where all can be read
};

/// Whether the table is of such runs: it has columns "method" and "peak_memory_gib".
bool is_fine_tuning_table(const CsvTable& table);
/// Throws Error where a column is missing that no row can do without.
std::vector<FineTuningRow> fine_tuning_rows(const CsvTable& table);

/// Tokens a second of one GPU: as the row has them, or from its notes: "/ 8.4s/it" of 8
/// micro-batches (grad accumulation 8), or "1,024 samples in 437 s" of all GPUs. None where none of
/// these stands there, or where the length of the last two is a cap.
std::optional<double> measured_tokens_per_s(const FineTuningRow& row);

/// "Lightning-AI/litgpt" of "Lightning-AI/litgpt config_hub/finetune/README.md @26857050".
std::string repository_of(const FineTuningRow& row);

}  // namespace shardscope
