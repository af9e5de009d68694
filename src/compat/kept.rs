//! The bytes of a file's tensors, held until candle has copied them.

use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom};

/// Slabs one after another, as a file that frees what has been read to its end.
#[derive(Debug, Default)]
pub(super) struct Kept {
    slabs: Vec<Slab>,
    len: u64,
    position: u64,
}

#[derive(Debug)]
struct Slab {
    start: u64,
    len: u64,
    /// `None` once it has been read.
    bytes: Option<Vec<u8>>,
    /// It is read more than once.
    stays: bool,
}

impl Kept {
    /// Adds slabs at the end; gives the offset of the first.
    pub(super) fn push(&mut self, slabs: Vec<Vec<u8>>, stays: bool) -> u64 {
        let offset = self.len;
        for bytes in slabs {
            let len = bytes.len() as u64;
            self.slabs.push(Slab {
                start: self.len,
                len,
                bytes: Some(bytes),
                stays,
            });
            self.len = self.len.saturating_add(len);
        }
        offset
    }

    /// Bytes that are still held.
    #[cfg(test)]
    fn held(&self) -> usize {
        let slabs = self.slabs.iter();
        slabs
            .filter_map(|slab| slab.bytes.as_ref())
            .map(Vec::len)
            .sum()
    }
}

impl Read for Kept {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let after = self
            .slabs
            .partition_point(|slab| slab.start <= self.position);
        let Some(slab) = after.checked_sub(1).and_then(|at| self.slabs.get_mut(at)) else {
            return Ok(0);
        };
        let Some(bytes) = &slab.bytes else {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a piece was read twice",
            ));
        };
        let skipped = usize::try_from(self.position - slab.start).unwrap_or(usize::MAX);
        let rest = bytes.get(skipped..).unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.position += count as u64;
        if !slab.stays && self.position == slab.start + slab.len {
            slab.bytes = None;
        }
        Ok(count)
    }
}

impl Seek for Kept {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(by) => (self.len, by),
            SeekFrom::Current(by) => (self.position, by),
        };
        self.position = from.checked_add_signed(by).ok_or(ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kept: &mut Kept, from: u64, count: usize) -> Result<Vec<u8>> {
        let mut out = vec![0; count];
        kept.seek(SeekFrom::Start(from))?;
        kept.read_exact(&mut out)?;
        Ok(out)
    }

    #[test]
    fn frees_a_slab_when_its_last_byte_is_read() {
        let mut kept = Kept::default();
        assert_eq!(kept.push(vec![vec![1, 2, 3], vec![4, 5]], false), 0);
        assert_eq!(kept.push(vec![vec![6, 7, 8, 9]], true), 5);
        assert_eq!(read(&mut kept, 0, 2).expect("it is there"), [1, 2]);
        assert_eq!(kept.held(), 9);
        assert_eq!(read(&mut kept, 2, 2).expect("it is there"), [3, 4]);
        assert_eq!(kept.held(), 6);
        for _ in 0..2 {
            assert_eq!(read(&mut kept, 4, 5).expect("it is there"), [5, 6, 7, 8, 9]);
            // The second slab is gone, the third stays.
            assert_eq!(kept.held(), 4);
            kept.slabs[1].bytes = Some(vec![4, 5]);
        }
        assert!(read(&mut kept, 1, 1).is_err());
        assert!(read(&mut kept, 8, 2).is_err());
    }
}
