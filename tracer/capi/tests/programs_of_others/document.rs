//! The commands of the guide's chapter on the functions of unmodified programs are run exactly as printed, beside
//! programs that do not know of tracing.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::compiled::installed;
use crate::rust::forget_cargo;

/// Returns the commands of the first block after `heading` in a document, one in a line.
fn commands(document: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = fs::read_to_string(path).expect("the document");
    let (_, chapter) = text.split_once(heading).expect("the chapter");
    let block = chapter.split("```").nth(1).expect("a block");
    block.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// Returns the two commands that lead to a tree in the guide, which must be equal to those of the document on
/// functions.
fn recipe(language: &str) -> [String; 2] {
    let commands = commands("guide.md", &format!("\n**A program in {language}.**"));
    assert_eq!(commands, self::commands("functions.md", &format!("\n## {language}\n")));
    commands.try_into().unwrap_or_else(|commands| panic!("not two commands: {commands:?}"))
}

/// Runs a command as a user does, and returns its output on both streams.
fn printed(command: &str, place: &Path, runtime: &Path) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(place);
    forget_cargo(&mut shell);
    let path = std::env::var("PATH").expect("a path");
    shell.env("PATH", format!("{}:{path}", installed().join("bin").display()));
    let output = shell.env("TRACER_RUNTIME_DIR", runtime).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    String::from_utf8(output.stdout).expect("text") + &said
}

/// Returns the depth of a function in a tree, as a number of characters.
fn depth(tree: &str, function: &str) -> usize {
    let line = tree.lines().find(|line| line.contains(function));
    line.and_then(|line| line.find(function)).unwrap_or_else(|| panic!("{function}: {tree}"))
}

#[test]
fn the_documented_commands_show_the_tree_of_a_rust_program() {
    let (place, runtime) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).expect("a file");
    fs::create_dir(place.path().join("src")).expect("a directory");
    write("Cargo.toml", "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n");
    write("src/main.rs", WORDS_IN_RUST);
    write("input.txt", "one two\nthree\n");
    let commands = recipe("Rust");
    let report = printed(&commands[0], place.path(), runtime.path());
    assert!(report.starts_with("3 words\n"), "{report}");
    let row = report.lines().find(|line| line.contains("  app::words_of  ")).expect("the function");
    assert!(row.trim_start().starts_with("2 "), "{report}");
    let tree = printed(&commands[1], place.path(), runtime.path());
    assert!(depth(&tree, "app::words_in") < depth(&tree, "app::words_of"), "{tree}");
    assert_eq!(tree.matches(" app::words_of  (").count(), 2, "{tree}");
}

#[test]
fn the_documented_commands_show_the_tree_of_a_cpp_program() {
    if support::programs::lacks(&["g++"]) {
        return;
    }
    let (place, runtime) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    fs::write(place.path().join("app.cpp"), SHAPES_IN_CPP).expect("a file");
    let commands = recipe("C and C++");
    let printed = |command: &str| printed(command, place.path(), runtime.path());
    assert_eq!(printed(&commands[0]), "");
    let told = printed(&commands[1]);
    let tree =
        told.strip_prefix("13\n").unwrap_or_else(|| panic!("what the program prints comes first: {told}"));
    assert!(depth(tree, "total(") < depth(tree, "Square::area()"), "{tree}");
    assert_eq!(tree.matches("Square::area()").count(), 2, "{tree}");
}

const WORDS_IN_RUST: &str = r#"
fn main() {
    let path = std::env::args().nth(1).expect("a path");
    println!("{} words", words_in(&std::fs::read_to_string(path).expect("a file")));
}

#[inline(never)]
fn words_in(text: &str) -> usize {
    text.lines().map(words_of).sum()
}

#[inline(never)]
fn words_of(line: &str) -> usize {
    line.split(' ').map(str::to_owned).collect::<Vec<String>>().len()
}
"#;

const SHAPES_IN_CPP: &str = r#"
#include <iostream>
#include <memory>
#include <vector>
struct Shape { virtual ~Shape() = default; virtual int area() const = 0; };
struct Square : Shape {
    int side;
    explicit Square(int side) : side(side) {}
    int area() const override { return side * side; }
};
static int total(const std::vector<std::unique_ptr<Shape>> &shapes) {
    int sum = 0;
    for (const auto &shape : shapes) sum += shape->area();
    return sum;
}
int main() {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Square>(2));
    shapes.push_back(std::make_unique<Square>(3));
    std::cout << total(shapes) << std::endl;
}
"#;
