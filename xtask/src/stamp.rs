//! Stamps: a step whose inputs hash to the same value as last time is skipped.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Hashes what a step reads.
pub(crate) struct Inputs(Sha256);

impl Inputs {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// A file's content, or all files below a folder; what is absent counts as such.
    pub(crate) fn path(mut self, path: &Path) -> Result<Self> {
        let mut files = Vec::new();
        collect(path, &mut files)?;
        files.sort();
        for file in files {
            let bytes =
                fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
            self = self.text(&file.to_string_lossy());
            self.0.update((bytes.len() as u64).to_le_bytes());
            self.0.update(&bytes);
        }
        Ok(self)
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
    } else if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_name() != "node_modules" {
                collect(&entry.path(), files)?;
            }
        }
    }
    Ok(())
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn stamp_file(step: &str) -> PathBuf {
    crate::paths::at_root("target/xtask").join(format!("{step}.stamp"))
}

/// Runs `work` unless `step` was last done with the same inputs and `output` still exists.
/// Gives whether it ran.
pub(crate) fn unless_fresh(
    step: &str,
    inputs: &str,
    output: &Path,
    work: impl FnOnce() -> Result<()>,
) -> Result<bool> {
    let stamp = stamp_file(step);
    if output.exists() && fs::read_to_string(&stamp).is_ok_and(|last| last == inputs) {
        return Ok(false);
    }
    if stamp.exists() {
        fs::remove_file(&stamp)?;
    }
    work()?;
    if let Some(dir) = stamp.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(&stamp, inputs).with_context(|| format!("cannot write `{}`", stamp.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_differ_when_text_moves_between_parts() {
        let joined = Inputs::new().text("ab").text("c").finish();
        let moved = Inputs::new().text("a").text("bc").finish();
        assert_ne!(joined, moved);
    }

    #[test]
    fn inputs_change_when_a_file_below_a_folder_changes() {
        let dir = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(dir.join("deep")).unwrap();
        fs::write(dir.join("deep/file"), "one").unwrap();
        let before = Inputs::new().path(&dir).unwrap().finish();
        fs::write(dir.join("deep/file"), "two").unwrap();
        let after = Inputs::new().path(&dir).unwrap().finish();
        fs::remove_dir_all(&dir).unwrap();
        assert_ne!(before, after);
    }
}
