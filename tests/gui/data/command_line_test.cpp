#include "gui/app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope::gui {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    parse_command_line(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return {};
}

TEST(GuiCommandLine, FilesAndOptionsMix) {
  const GuiArguments line = parse_command_line(
      {"one", "--a", "x", "two", "--b=y", "--appearance", "dark", "--", "--a=3"});
  EXPECT_THAT(line.files, ElementsAre("one", "two", "--a=3"));
  EXPECT_EQ(line.a, "x");
  EXPECT_EQ(line.b, "y");
  EXPECT_EQ(line.appearance, AppearanceChoice::dark);
  EXPECT_FALSE(line.export_request);
}

TEST(GuiCommandLine, AFilesEndingSaysItsFormat) {
  const GuiArguments line = parse_command_line(
      {"run", "--export", "memory", "-o", "m.svg", "--size", "1200x600", "--scale", "1.5"});
  ASSERT_TRUE(line.export_request);
  EXPECT_THAT(line.export_request->views, ElementsAre("memory"));
  EXPECT_EQ(line.export_request->format, ExportFormat::svg);
  EXPECT_FALSE(line.export_request->into_folder);
  EXPECT_EQ(line.export_request->size.width, 1200);
  EXPECT_EQ(line.export_request->size.height, 600);
  EXPECT_EQ(line.export_request->size.scale, 1.5);
}

TEST(GuiCommandLine, WithoutAnEndingItIsAFolder) {
  const GuiArguments line = parse_command_line({"--export", "all", "-o", "pictures"});
  EXPECT_THAT(line.export_request->views, IsEmpty());
  EXPECT_TRUE(line.export_request->into_folder);
  EXPECT_EQ(line.export_request->format, ExportFormat::png);
  EXPECT_EQ(
      parse_command_line({"--export", "all", "-o", "p/", "--format", "csv"}).export_request->format,
      ExportFormat::csv);
}

TEST(GuiCommandLine, SeveralViewsAreThePagesOfAPdfButNoPicture) {
  EXPECT_TRUE(parse_command_line({"--export", "memory,timeline", "-o", "a.pdf"}).export_request);
  EXPECT_THAT(complaint({"--export", "memory,timeline", "-o", "a.png"}),
              HasSubstr("cannot hold several views"));
}

TEST(GuiCommandLine, WhatIsWrongIsNamedWithAWayOut) {
  EXPECT_EQ(complaint({"--exprt", "all"}), "--exprt: unknown option; did you mean --export?");
  EXPECT_THAT(complaint({"--export", "all"}), HasSubstr("give -o FILE.png"));
  EXPECT_THAT(complaint({"-o", "a.png"}), HasSubstr("give --export VIEW"));
  EXPECT_THAT(complaint({"--scale", "2"}), HasSubstr("--size"));
  EXPECT_THAT(complaint({"--a"}), HasSubstr("--a: a value is missing"));
  EXPECT_THAT(complaint({"--version=3"}), HasSubstr("expected no value"));
  EXPECT_THAT(complaint({"--appearance", "pink"}), HasSubstr("light, dark or system"));
  EXPECT_THAT(complaint({"--export", "a,,b", "-o", "x"}), HasSubstr("commas"));
  EXPECT_THAT(complaint({"--export", "a", "-o", "x.jpg"}), HasSubstr(".png, .svg, .pdf"));
}

TEST(GuiCommandLine, SizesHaveBounds) {
  for (const char* size : {"", "x", "100", "100x", "x100", "63x100", "100x16385", "1e3x100",
                           "-100x100", "100x100x100"})
    EXPECT_THAT(complaint({"--size", size}), HasSubstr("--size: expected WxH")) << size;
  for (const char* scale : {"0", "nan", "9", "two"})
    EXPECT_THAT(complaint({"--scale", scale}), HasSubstr("--scale: expected 0.5 to 8")) << scale;
  EXPECT_THAT(complaint({"--export", "a", "-o", "a.png", "--size", "16384x16384"}),
              HasSubstr("million pixels"));
}

TEST(GuiCommandLine, HelpHasEveryOptionAndExamples) {
  for (const char* option : {"--a ", "--b ", "--appearance ", "--export ", "-o ", "--format ",
                             "--size ", "--scale ", "--version", "-h,--help"})
    EXPECT_THAT(command_line_help(), HasSubstr(std::string("\n  ") + option));
  EXPECT_THAT(command_line_help(), HasSubstr("\nExamples:\n  shardscope-gui "));
}

}  // namespace
}  // namespace shardscope::gui
