#include "gui/app/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest_word.h"

namespace shardscope::gui {
namespace {

namespace fs = std::filesystem;

constexpr int least_pixels = 64, most_pixels = 16384;
constexpr double least_scale = 0.5, most_scale = 8;
constexpr double most_pixels_of_picture = 200e6;

struct OptionRow {
  std::string_view heading, name, value, text;
};

constexpr std::array<OptionRow, 11> option_rows{
    {{"What is compared", "--a", "LABEL", "the scenario that is shown, by its label or path"},
     {"What is compared", "--b", "LABEL", "the one that it is compared with"},
     {"Window", "--appearance", "light|dark|system", "unless given, as it was last chosen"},
     {"Pictures instead of a window", "--export", "VIEW,...|all|window",
      "writes these views, or the whole window, and ends; needs no display"},
     {"Pictures instead of a window", "-o", "PATH",
      "a .png, .svg, .pdf, .csv or .md file, or the folder that gets one for each view"},
     {"Pictures instead of a window", "--format", "png|svg|pdf|csv|md",
      "of the files of a folder; png unless given"},
     {"Pictures instead of a window", "--size", "WxH",
      "of a picture, in logical pixels; 1600x900 unless given"},
     {"Pictures instead of a window", "--scale", "N", "pixels for each of them; 2 unless given"},
     {"About", "--version", "", "prints it"},
     {"About", "-h", "", "prints this"},
     {"About", "--help", "", "prints this"}}};

constexpr std::string_view examples =
    "\nExamples:\n"
    "  shardscope-gui runs/*\n"
    "      the runs of a folder side by side, predicted over profiled\n"
    "  shardscope-gui --a full_shard --b no_shard runs/demo/round_1\n"
    "      two of them compared\n"
    "  shardscope-gui rank0.pt.trace.json.gz memory.pickle\n"
    "      what PyTorch recorded\n"
    "  shardscope-gui runs/full_shard --export memory -o memory.svg --size 1200x600\n"
    "      one view as a picture, also where there is no display\n"
    "  shardscope-gui runs/demo --export all -o tables/ --format csv\n"
    "      what every view shows, as tables\n";

Error bad_value(std::string_view option, const std::string& value, std::string_view expected) {
  return Error({.where = std::string(option),
                .what = fmt::format("expected {}, got \"{}\"", expected, value)});
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_size(const std::string& text, PictureSize& size) {
  const std::size_t cross = text.find('x');
  const auto width = number_in<int>(std::string_view(text).substr(0, cross));
  const auto height =
      number_in<int>(std::string_view(text).substr(std::min(cross, text.size() - 1) + 1));
  const auto is_fine = [](const std::optional<int>& pixels) {
    return pixels && *pixels >= least_pixels && *pixels <= most_pixels;
  };
  if (cross == std::string::npos || !is_fine(width) || !is_fine(height))
    throw bad_value("--size", text,
                    fmt::format("WxH of {} to {} pixels", least_pixels, most_pixels));
  size.width = *width;
  size.height = *height;
}

void read_scale(const std::string& text, PictureSize& size) {
  const auto scale = number_in<double>(text);
  if (!scale || !(*scale >= least_scale && *scale <= most_scale))
    throw bad_value("--scale", text, fmt::format("{} to {}", least_scale, most_scale));
  size.scale = *scale;
}

AppearanceChoice read_appearance(const std::string& text) {
  const auto same = std::find(appearance_names.begin(), appearance_names.end(), text);
  if (same == appearance_names.end())
    throw bad_value("--appearance", text, "light, dark or system");
  return static_cast<AppearanceChoice>(same - appearance_names.begin());
}

/// "memory,timeline"; "all" is the empty list.
std::vector<std::string> read_views(const std::string& text) {
  if (text == "all") return {};
  std::vector<std::string> views;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) throw bad_value("--export", text, "names of views with commas between them");
    views.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return views;
}

/// What is given about an export, before it is known whether it fits together.
struct Given {
  std::optional<std::string> views, output, format;
  PictureSize size;
  bool has_size = false;

  /// An option that counts only with --export.
  std::string_view picture_option() const {
    return output ? "-o" : format ? "--format" : has_size ? "--size" : "";
  }
};

ExportFormat named_format(const std::string& name) {
  const auto format = export_format(name);
  if (!format) throw bad_value("--format", name, "png, svg, pdf, csv or md");
  return *format;
}

bool names_a_folder(const fs::path& path) {
  std::error_code ignored;
  return !path.has_filename() || !path.has_extension() || fs::is_directory(path, ignored);
}

ExportRequest request_of(const Given& given) {
  if (!given.output)
    throw Error({.where = "--export",
                 .what = "nothing says where to",
                 .way_out = "give -o FILE.png, .svg, .pdf, .csv or .md, or -o FOLDER"});
  ExportRequest request{
      .views = read_views(*given.views), .output = *given.output, .size = given.size};
  request.into_folder = names_a_folder(request.output) && !fs::is_character_file(request.output);
  const auto by_ending = format_of(request.output);
  if (given.format) {
    request.format = named_format(*given.format);
  } else if (!request.into_folder) {
    if (!by_ending)
      throw bad_value("-o", *given.output, "a folder, or a .png, .svg, .pdf, .csv or .md file");
    request.format = *by_ending;
  }
  const bool is_one = request.views.size() == 1 || request.format == ExportFormat::pdf;
  if (!request.into_folder && !is_one)
    throw Error({.where = "-o",
                 .what = fmt::format("{} cannot hold several views", *given.output),
                 .way_out = "give a folder, a .pdf file, or one view"});
  if (1.0 * request.size.width * request.size.height * std::pow(request.size.scale, 2) >
      most_pixels_of_picture)
    throw Error(
        {.where = "--size",
         .what = fmt::format("{}x{} at scale {} is more than {} million pixels", request.size.width,
                             request.size.height, request.size.scale, most_pixels_of_picture / 1e6),
         .way_out = "give a smaller --size or --scale"});
  return request;
}

Error unknown_option(const std::string& argument) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_rows) names.push_back(row.name);
  const auto near = nearest_word(argument, names);
  return Error({.where = argument,
                .what = "unknown option",
                .way_out = near ? fmt::format("did you mean {}?", *near) : "--help lists them"});
}

/// Takes "--name value" and "--name=value" apart.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& all) : all_(all) {}
  bool done() const { return next_ == all_.size(); }
  std::string take_whole() { return all_[next_++]; }
  std::string take() {
    std::string argument = take_whole();
    const std::size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    if (equals == std::string::npos) return argument;
    value_ = argument.substr(equals + 1);
    return argument.substr(0, equals);
  }
  std::string value_of(std::string_view option) {
    if (value_) return *std::exchange(value_, std::nullopt);
    if (done())
      throw Error(
          {.where = std::string(option), .what = "a value is missing", .way_out = "see --help"});
    return take_whole();
  }
  void expect_no_value(std::string_view option) const {
    if (value_) throw bad_value(option, *value_, "no value");
  }

 private:
  const std::vector<std::string>& all_;
  std::size_t next_ = 0;
  std::optional<std::string> value_;
};

}  // namespace

GuiArguments parse_command_line(const std::vector<std::string>& arguments) {
  GuiArguments line;
  Given given;
  using Store = std::function<void(const std::string&)>;
  const std::map<std::string, Store, std::less<>> with_value{
      {"--a", [&](const std::string& value) { line.a = value; }},
      {"--b", [&](const std::string& value) { line.b = value; }},
      {"--appearance", [&](const std::string& value) { line.appearance = read_appearance(value); }},
      {"--export", [&](const std::string& value) { given.views = value; }},
      {"-o", [&](const std::string& value) { given.output = value; }},
      {"--format", [&](const std::string& value) { given.format = value; }},
      {"--size",
       [&](const std::string& value) { given.has_size = true, read_size(value, given.size); }},
      {"--scale",
       [&](const std::string& value) { given.has_size = true, read_scale(value, given.size); }}};
  const std::map<std::string, bool*, std::less<>> flags{
      {"--version", &line.version}, {"-h", &line.help}, {"--help", &line.help}};
  for (Arguments rest(arguments); !rest.done();) {
    const std::string argument = rest.take();
    if (argument == "-" || !argument.starts_with("-")) {
      line.files.emplace_back(argument);
    } else if (argument == "--") {
      while (!rest.done()) line.files.emplace_back(rest.take_whole());
    } else if (const auto flag = flags.find(argument); flag != flags.end()) {
      rest.expect_no_value(argument);
      *flag->second = true;
    } else if (const auto option = with_value.find(argument); option != with_value.end()) {
      option->second(rest.value_of(argument));
    } else {
      throw unknown_option(argument);
    }
  }
  if (given.views) {
    line.export_request = request_of(given);
  } else if (const std::string_view option = given.picture_option(); !option.empty()) {
    throw Error({.where = std::string(option),
                 .what = "says how pictures are written, and none is asked for",
                 .way_out = "give --export VIEW or --export all as well"});
  }
  return line;
}

std::string command_line_help() {
  std::string text =
      "Predicted training runs over profiled ones: memory, time and their differences.\n"
      "Usage: shardscope-gui [OPTIONS] [FILE...]\n\n"
      "Positionals:\n"
      "  FILE ...                          run folders, traces, memory snapshots, session files, "
      "folders of them\n";
  std::string_view heading;
  for (const OptionRow& row : option_rows) {
    if (row.name == "-h") continue;
    if (row.heading != std::exchange(heading, row.heading))
      text += fmt::format("\n{}:\n", row.heading);
    const std::string name =
        row.name == "--help" ? "-h,--help" : fmt::format("{} {}", row.name, row.value);
    text += fmt::format("  {:<34}{}\n", name, row.text);
  }
  return text + std::string(examples) +
         "\nExit codes: 0 done, 2 bad usage or input, 3 something outside failed (disk, "
         "display).\n";
}

}  // namespace shardscope::gui
