//! Running other programs, with failures told as sentences.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Writes to stdout; the only place that does, so that `--json` stays one object.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// The command line, for messages.
pub(crate) fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().to_string_lossy())
}

/// Runs to the end; the program's own output goes to stderr.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()))
        .status()
        .with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs to the end and gives what it wrote on stdout, trimmed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", describe(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Like [`output`], with the program's own words on stderr left to be seen.
pub(crate) fn output_or_words(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| cannot_start(command))?;
    let text = String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned();
    if !output.status.success() {
        print(&format!("{text}\n"))?;
        bail!("`{}` failed ({})", describe(command), output.status);
    }
    Ok(text)
}

/// Becomes that program, so that signals reach it directly and no child outlives this one.
#[cfg(unix)]
pub(crate) fn become_program(command: &mut Command) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let error = command.exec();
    Err(error).with_context(|| cannot_start(command))
}

/// Runs the program to its end and exits with its status.
#[cfg(not(unix))]
pub(crate) fn become_program(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    std::process::exit(status.code().unwrap_or(1));
}

/// A Node script of `xtask/node`.
pub(crate) fn node_script(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(crate::paths::at_root("xtask/node").join(name));
    command.current_dir(crate::paths::root());
    command
}
