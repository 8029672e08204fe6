#include "traces/query/query_tables.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "traces/analysis.h"
#include "traces/import/snapshot_categories.h"
#include "traces/import/snapshot_lifetimes.h"

namespace shardscope {
namespace {

QueryCell integer(std::int64_t value) { return value; }
QueryCell text(std::string_view value) { return value; }
QueryCell none() { return std::monostate{}; }
QueryCell known(OperationId operation) {
  return operation ? QueryCell(static_cast<std::int64_t>(operation.value)) : none();
}

/// A part of a table: the rows of one rank, or of one file.
struct Part {
  const QueryRun* run = nullptr;
  std::size_t place = 0;  ///< of the rank, trace or snapshot in the run
  std::size_t first = 0;  ///< its first row
};

/// Parts one after the other; a row is found by a search among them.
class Parts {
 public:
  void add(const QueryRun& run, std::size_t place, std::size_t rows) {
    if (rows == 0) return;
    parts_.push_back({.run = &run, .place = place, .first = rows_});
    rows_ += rows;
  }
  std::size_t rows() const { return rows_; }
  const std::vector<Part>& all() const { return parts_; }
  const Part& of(std::size_t row) const { return parts_[index_of(row)]; }
  std::size_t index_of(std::size_t row) const {
    const auto next = std::upper_bound(parts_.begin(), parts_.end(), row,
                                       [](std::size_t at, const Part& p) { return at < p.first; });
    return static_cast<std::size_t>(next - parts_.begin()) - 1;
  }

 private:
  std::vector<Part> parts_;
  std::size_t rows_ = 0;
};

Parts parts_of_ranks(const std::vector<QueryRun>& runs,
                     const std::function<std::size_t(const Trace&)>& rows_of) {
  Parts parts;
  for (const QueryRun& run : runs)
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
      parts.add(run, rank, rows_of(*run.ranks[rank]));
  return parts;
}

/// The three columns that all tables begin with.
QueryCell place_cell(const Part& part, std::int64_t rank, std::size_t column) {
  if (column == 0) return text(part.run->scenario);
  if (column == 1) return text(part.run->side);
  return integer(rank);
}

const Trace& trace_of(const Part& part) { return *part.run->ranks[part.place]; }

const std::vector<QueryTableHelp>& all_help() {
  static const std::vector<QueryTableHelp> help{
      {"spans",
       "what ran on a stream or the host: times in ns of the rank's clock",
       {{"scenario", "TEXT"},       {"side", "TEXT"},           {"rank", "INTEGER"},
        {"id", "INTEGER"},          {"name", "TEXT"},           {"track", "TEXT"},
        {"stream", "TEXT"},         {"class", "TEXT"},          {"step", "INTEGER"},
        {"start_ns", "INTEGER"},    {"duration_ns", "INTEGER"}, {"end_ns", "INTEGER"},
        {"operation", "INTEGER"},   {"kind", "TEXT"},           {"phase", "TEXT"},
        {"micro_batch", "INTEGER"}, {"unit", "TEXT"},           {"bytes", "INTEGER"},
        {"flops", "REAL"},          {"group_name", "TEXT"},     {"module", "TEXT"},
        {"shapes", "TEXT"}}},
      {"units",
       "a unit's time in the step that stands for the run",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"rank", "INTEGER"},
        {"unit", "TEXT"},
        {"compute_ns", "INTEGER"},
        {"communication_ns", "INTEGER"},
        {"exposed_communication_ns", "INTEGER"},
        {"communication_bytes", "INTEGER"}}},
      {"steps",
       "a step's time: compute + exposed communication + exposed copies + idle = duration",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"rank", "INTEGER"},
        {"step", "INTEGER"},
        {"start_ns", "INTEGER"},
        {"duration_ns", "INTEGER"},
        {"end_ns", "INTEGER"},
        {"compute_ns", "INTEGER"},
        {"exposed_communication_ns", "INTEGER"},
        {"exposed_copy_ns", "INTEGER"},
        {"idle_ns", "INTEGER"},
        {"overlap_ns", "INTEGER"}}},
      {"memory",
       "bytes held from a time on, by category",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"rank", "INTEGER"},
        {"start_ns", "INTEGER"},
        {"operation", "INTEGER"},
        {"allocated", "INTEGER"},
        {"active", "INTEGER"},
        {"reserved", "INTEGER"},
        {"parameters", "INTEGER"},
        {"gradients", "INTEGER"},
        {"optimizer_states", "INTEGER"},
        {"activations", "INTEGER"},
        {"communication", "INTEGER"},
        {"temporaries", "INTEGER"},
        {"workspace", "INTEGER"},
        {"inputs", "INTEGER"}}},
      {"buffers",
       "a buffer of the predicted schedule; operations as in spans",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"rank", "INTEGER"},
        {"name", "TEXT"},
        {"unit", "TEXT"},
        {"category", "TEXT"},
        {"bytes", "INTEGER"},
        {"allocated_by", "INTEGER"},
        {"freed_by", "INTEGER"}}},
      {"allocations",
       "a block of a CUDA memory snapshot; times in ns since 1970, NULL where it was there before, "
       "or is at the end",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"device", "INTEGER"},
        {"file", "TEXT"},
        {"address", "INTEGER"},
        {"bytes", "INTEGER"},
        {"category", "TEXT"},
        {"frame", "TEXT"},
        {"stream", "INTEGER"},
        {"start_ns", "INTEGER"},
        {"end_ns", "INTEGER"},
        {"alive_at_end", "INTEGER"}}},
      {"events",
       "an event of a foreign trace as its file has it, host threads with it",
       {{"scenario", "TEXT"},
        {"side", "TEXT"},
        {"rank", "INTEGER"},
        {"id", "INTEGER"},
        {"name", "TEXT"},
        {"category", "TEXT"},
        {"phase", "TEXT"},
        {"process", "TEXT"},
        {"thread", "TEXT"},
        {"start_ns", "INTEGER"},
        {"duration_ns", "INTEGER"},
        {"end_ns", "INTEGER"},
        {"correlation", "INTEGER"}}}};
  return help;
}

QueryTableHelp help_of(std::string_view name) {
  return *std::find_if(all_help().begin(), all_help().end(),
                       [&](const QueryTableHelp& help) { return help.name == name; });
}

QueryCell fact_cell(const Trace& trace, const OperationFacts& facts, std::size_t column) {
  switch (column) {
    case 13:
      return text(name_of(facts.kind));
    case 14:
      return text(name_of(facts.phase));
    case 15:
      return integer(facts.micro_batch);
    case 16:
      return text(facts.unit);
    case 17:
      return integer(facts.bytes.count);
    case 18:
      return static_cast<double>(facts.flops.count);
    case 19:
      return facts.group.empty() ? none() : text(facts.group);
    case 20:
      return facts.module < trace.names.size() ? text(trace.names[facts.module]) : none();
    default:
      return facts.shapes < trace.names.size() ? text(trace.names[facts.shapes]) : none();
  }
}

QueryTable spans_table(const std::vector<QueryRun>& runs) {
  struct State {
    Parts parts;
    std::vector<FactsTable> facts;  ///< of each part
  };
  auto state = std::make_shared<State>();
  state->parts = parts_of_ranks(runs, [](const Trace& trace) { return trace.spans.size(); });
  for (const Part& part : state->parts.all()) state->facts.emplace_back(trace_of(part));
  const auto cell = [state](std::size_t row, std::size_t column) -> QueryCell {
    const std::size_t index = state->parts.index_of(row);
    const Part& part = state->parts.all()[index];
    const Trace& trace = trace_of(part);
    const std::size_t id = row - part.first;
    const Span& span = trace.spans[id];
    switch (column) {
      case 0:
      case 1:
      case 2:
        return place_cell(part, trace.rank, column);
      case 3:
        return integer(static_cast<std::int64_t>(id));
      case 4:
        return text(trace.name(span));
      case 5:
        return span.track < trace.tracks.size() ? text(trace.tracks[span.track].name) : none();
      case 6:
        return span.track < trace.tracks.size() ? text(name_of(trace.tracks[span.track].stream))
                                                : none();
      case 7:
        return text(name_of(span.span_class));
      case 8:
        return span.step > 0 ? integer(span.step) : none();
      case 9:
        return integer(span.start.ns);
      case 10:
        return integer(span.duration.ns);
      case 11:
        return integer(span.end().ns);
      case 12:
        return known(span.operation);
      default: {
        const OperationFacts* facts = state->facts[index].find(span.operation);
        return facts == nullptr ? none() : fact_cell(trace, *facts, column);
      }
    }
  };
  return {.help = help_of("spans"), .rows = [state] { return state->parts.rows(); }, .cell = cell};
}

/// A table whose rows are measured when they are first asked for. `measure` gives a rank's rows,
/// `cell_of` a row's columns behind the first three.
template <class Row>
QueryTable measured_table(const std::vector<QueryRun>& runs, std::string_view name,
                          std::function<std::vector<Row>(const Trace&)> measure,
                          std::function<QueryCell(const Row&, std::size_t)> cell_of) {
  struct State {
    std::optional<std::vector<std::pair<Part, Row>>> rows;
  };
  auto state = std::make_shared<State>();
  const auto rows = [state, &runs,
                     measure = std::move(measure)]() -> const std::vector<std::pair<Part, Row>>& {
    if (state->rows) return *state->rows;
    state->rows.emplace();
    for (const QueryRun& run : runs)
      for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
        for (Row& row : measure(*run.ranks[rank]))
          state->rows->emplace_back(Part{.run = &run, .place = rank}, std::move(row));
    return *state->rows;
  };
  return {.help = help_of(name),
          .rows = [rows] { return rows().size(); },
          .cell = [rows, cell_of = std::move(cell_of)](std::size_t row,
                                                       std::size_t column) -> QueryCell {
            const auto& [part, values] = rows()[row];
            if (column < 3) return place_cell(part, trace_of(part).rank, column);
            return cell_of(values, column);
          }};
}

QueryTable units_table(const std::vector<QueryRun>& runs) {
  return measured_table<UnitAccounting>(
      runs, "units",
      [](const Trace& trace) {
        const std::vector<StepWindow> steps = step_windows(trace);
        return account_by_unit(trace, steps[steady_step(steps)].window);
      },
      [](const UnitAccounting& unit, std::size_t column) -> QueryCell {
        switch (column) {
          case 3:
            return text(unit.unit);
          case 4:
            return integer(unit.compute.ns);
          case 5:
            return integer(unit.communication.ns);
          case 6:
            return integer(unit.exposed_communication.ns);
          default:
            return integer(unit.communication_bytes.count);
        }
      });
}

struct StepRow {
  StepWindow step;
  Accounting time;
};

QueryTable steps_table(const std::vector<QueryRun>& runs) {
  return measured_table<StepRow>(
      runs, "steps",
      [](const Trace& trace) {
        std::vector<StepRow> rows;
        for (const StepWindow& step : step_windows(trace))
          rows.push_back({.step = step, .time = account(trace, step.window)});
        return rows;
      },
      [](const StepRow& row, std::size_t column) -> QueryCell {
        switch (column) {
          case 3:
            return row.step.step > 0 ? integer(row.step.step) : none();
          case 4:
            return integer(row.step.window.begin.ns);
          case 5:
            return integer(row.step.window.length().ns);
          case 6:
            return integer(row.step.window.end.ns);
          case 7:
            return integer(row.time.compute.ns);
          case 8:
            return integer(row.time.exposed_communication.ns);
          case 9:
            return integer(row.time.exposed_copy.ns);
          case 10:
            return integer(row.time.idle.ns);
          default:
            return integer(row.time.overlap.ns);
        }
      });
}

QueryTable memory_table(const std::vector<QueryRun>& runs) {
  auto parts = std::make_shared<Parts>(
      parts_of_ranks(runs, [](const Trace& trace) { return trace.memory.size(); }));
  const auto cell = [parts](std::size_t row, std::size_t column) -> QueryCell {
    const Part& part = parts->of(row);
    const Trace& trace = trace_of(part);
    const MemorySample& sample = trace.memory[row - part.first];
    const auto figure = [](Bytes bytes) {
      return bytes.count == 0 ? none() : integer(bytes.count);
    };
    switch (column) {
      case 0:
      case 1:
      case 2:
        return place_cell(part, trace.rank, column);
      case 3:
        return integer(sample.time.ns);
      case 4:
        return known(sample.operation);
      case 5:
        return integer(sample.live.total().count);
      case 6:
        return figure(sample.active);
      case 7:
        return figure(sample.reserved);
      default:
        return integer(sample.live.by[column - 8].count);
    }
  };
  return {.help = help_of("memory"), .rows = [parts] { return parts->rows(); }, .cell = cell};
}

QueryTable buffers_table(const std::vector<QueryRun>& runs) {
  auto parts = std::make_shared<Parts>();
  for (const QueryRun& run : runs) parts->add(run, 0, run.buffers.size());
  const auto cell = [parts](std::size_t row, std::size_t column) -> QueryCell {
    const Part& part = parts->of(row);
    const PredictedBuffer& buffer = part.run->buffers[row - part.first];
    switch (column) {
      case 0:
      case 1:
        return place_cell(part, 0, column);
      case 2:
        return part.run->ranks.empty() ? none() : integer(part.run->ranks.front()->rank);
      case 3:
        return text(buffer.name);
      case 4:
        return text(buffer.unit);
      case 5:
        return text(name_of(buffer.category));
      case 6:
        return integer(buffer.bytes.count);
      case 7:
        return known(buffer.allocated_by);
      default:
        return known(buffer.freed_by);
    }
  };
  return {.help = help_of("buffers"), .rows = [parts] { return parts->rows(); }, .cell = cell};
}

/// The blocks of one device of one snapshot.
struct SnapshotPart {
  const QueryRun* run = nullptr;
  const MemorySnapshot* snapshot = nullptr;
  std::int64_t device = 0;
  std::vector<BlockLifetime> blocks;
  std::vector<std::optional<MemoryCategory>> categories;
};

class AllocationRows {
 public:
  explicit AllocationRows(const std::vector<QueryRun>& runs) : runs_(runs) {}

  std::size_t rows() {
    if (!parts_) read();
    return rows_.rows();
  }

  QueryCell cell(std::size_t row, std::size_t column) {
    const Part& place = rows_.of(row);
    const SnapshotPart& part = (*parts_)[place.place];
    const std::size_t index = row - place.first;
    const BlockLifetime& one = part.blocks[index];
    const auto time = [&](std::optional<std::uint32_t> event) {
      if (!event) return none();
      const std::int64_t us = part.snapshot->events_of(part.device)->time_us[*event];
      return us >= 0 && us < INT64_MAX / 1000 ? integer(us * 1000) : none();
    };
    switch (column) {
      case 0:
        return text(part.run->scenario);
      case 1:
        return text(part.run->side);
      case 2:
        return integer(part.device);
      case 3:
        return text(part.snapshot->file);
      case 4:
        return integer(one.block.address);
      case 5:
        return integer(one.block.size.count);
      case 6:
        return part.categories[index] ? text(name_of(*part.categories[index])) : none();
      case 7:
        return innermost_telling_frame(*part.snapshot, one.block.stack);
      case 8:
        return one.block.stream < part.snapshot->streams.size()
                   ? integer(part.snapshot->streams[one.block.stream])
                   : none();
      case 9:
        return time(one.block.event);
      case 10:
        return time(one.end);
      default:
        return integer(one.end ? 0 : 1);
    }
  }

 private:
  void read() {
    parts_.emplace();
    for (const QueryRun& run : runs_)
      for (const auto& snapshot : run.snapshots)
        for (const std::int64_t device : snapshot->devices()) {
          SnapshotPart part{.run = &run, .snapshot = snapshot.get(), .device = device};
          part.blocks = block_lifetimes(*snapshot, device);
          BlockCategories categories(*snapshot, device);
          for (const BlockLifetime& one : part.blocks)
            part.categories.push_back(categories.of(one.block));
          rows_.add(run, parts_->size(), part.blocks.size());
          parts_->push_back(std::move(part));
        }
  }

  const std::vector<QueryRun>& runs_;
  std::optional<std::vector<SnapshotPart>> parts_;
  Parts rows_;
};

QueryTable allocations_table(const std::vector<QueryRun>& runs) {
  auto rows = std::make_shared<AllocationRows>(runs);
  return {.help = help_of("allocations"),
          .rows = [rows] { return rows->rows(); },
          .cell = [rows](std::size_t row, std::size_t column) { return rows->cell(row, column); }};
}

QueryTable events_table(const std::vector<QueryRun>& runs) {
  auto parts = std::make_shared<Parts>();
  for (const QueryRun& run : runs)
    for (std::size_t i = 0; i < run.imported.size(); ++i)
      if (run.imported[i]) parts->add(run, i, run.imported[i]->events.size());
  const auto cell = [parts](std::size_t row, std::size_t column) -> QueryCell {
    const Part& part = parts->of(row);
    const ImportedTrace& trace = *part.run->imported[part.place];
    const std::size_t id = row - part.first;
    // On the clock of the rank's spans, where there are some.
    const std::int64_t shift = part.place < part.run->ranks.size()
                                   ? trace.base_ns - part.run->ranks[part.place]->base_ns
                                   : 0;
    switch (column) {
      case 0:
      case 1:
        return place_cell(part, 0, column);
      case 2:
        return trace.rank ? integer(*trace.rank) : none();
      case 3:
        return integer(static_cast<std::int64_t>(id));
      case 4:
        return text(trace.name_of(id));
      case 5:
        return text(trace.category_of(id));
      case 6:
        return std::string(1, trace.events.phase[id]);
      case 7:
        return text(trace.track_of(id).process.text);
      case 8:
        return text(trace.track_of(id).thread.text);
      case 9:
        return integer(trace.events.start_ns[id] + shift);
      case 10:
        return integer(trace.events.duration_ns[id]);
      case 11:
        return integer(trace.events.end_ns(id) + shift);
      default:
        return trace.events.link[id] == 0 ? none() : integer(trace.events.link[id]);
    }
  };
  return {.help = help_of("events"), .rows = [parts] { return parts->rows(); }, .cell = cell};
}

/// What the other tables are.
QueryTable tables_table() {
  struct Row {
    const QueryTableHelp* table;
    const QueryTableHelp::Column* column;
  };
  auto rows = std::make_shared<std::vector<Row>>();
  for (const QueryTableHelp& help : all_help())
    for (const QueryTableHelp::Column& column : help.columns) rows->push_back({&help, &column});
  return {
      .help = {"tables",
               "",
               {{"name", "TEXT"}, {"column_name", "TEXT"}, {"type", "TEXT"}, {"about", "TEXT"}}},
      .rows = [rows] { return rows->size(); },
      .cell = [rows](std::size_t row, std::size_t column) -> QueryCell {
        const Row& of = (*rows)[row];
        const std::array<std::string_view, 4> cells{of.table->name, of.column->name,
                                                    of.column->type, of.table->about};
        return text(cells[column]);
      }};
}

}  // namespace

std::vector<QueryTableHelp> query_table_help() { return all_help(); }

std::vector<QueryTable> query_tables(const std::vector<QueryRun>& runs) {
  return {spans_table(runs),   units_table(runs),       steps_table(runs),  memory_table(runs),
          buffers_table(runs), allocations_table(runs), events_table(runs), tables_table()};
}

}  // namespace shardscope
