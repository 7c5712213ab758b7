//! Prints the page that lists every key of `longhaul.yml` with its default.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let reference = longhaul::config::Config::reference();
    writeln!(
        std::io::stdout(),
        "# The agent file\n\n`longhaul.yml` is looked for in the current folder, then in the user's configuration folder; `--config` names \
         another. Unknown keys and bad values are errors that name the line and the nearest valid key. Keys of later \
         capabilities are refused by name. For editors: [longhaul.schema.json](../longhaul.schema.json).\n\nEvery key with \
         its default:\n\n```yaml\n{reference}```"
    )
}
