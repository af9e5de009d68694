use super::header::FIXED_BYTES;
use super::shards::Shards;
use super::slab::Slab;
use super::{GgufError, Header, MAX_HEADER_BYTES, Parsed, TensorInfo, parse};

/// Receives what a [`Reader`] finds, in file order.
pub trait Sink {
    /// What the receiver fails with; the reader's own errors are turned into it.
    type Error: From<GgufError>;

    /// The header of one file is complete. `shard` counts from 0.
    ///
    /// # Errors
    /// An error ends the reading.
    fn header(&mut self, shard: usize, header: &Header) -> Result<(), Self::Error>;

    /// Whole rows of a tensor, from `first_row` on: `bytes` holds at most
    /// [`Reader::MAX_SLAB_BYTES`] and starts at an address that is a multiple of 8.
    ///
    /// # Errors
    /// An error ends the reading.
    fn rows(
        &mut self,
        tensor: &TensorInfo,
        first_row: u64,
        bytes: &[u8],
    ) -> Result<(), Self::Error>;
}

/// Reads a model from arriving bytes, of one file or of shards in order.
///
/// It holds the header's bytes until the header is complete (at most twice its size), and after
/// that one slab. Where slabs are cut depends on the file alone, not on how its bytes arrive:
/// each has as many whole rows as fit.
#[derive(Debug)]
pub struct Reader {
    file_lens: Vec<Option<u64>>,
    shard: usize,
    /// `None` once an error has ended the reading.
    state: Option<State>,
    /// Bytes of the current file that have arrived.
    file_bytes: u64,
    received_bytes: u64,
    shards: Shards,
    slab: Slab,
}

#[derive(Debug)]
enum State {
    /// Collecting the header; parsed again once `attempt_at` bytes are there.
    Header {
        buffer: Vec<u8>,
        attempt_at: usize,
    },
    Data(Data),
}

impl State {
    fn start() -> Self {
        // The fixed fields suffice to refuse what is no GGUF file.
        Self::Header {
            buffer: Vec::new(),
            attempt_at: to_usize(FIXED_BYTES),
        }
    }
}

impl Reader {
    /// Most bytes of one slab, 16 MiB. A row that is longer is an error.
    pub const MAX_SLAB_BYTES: usize = 16 << 20;

    /// Smallest prefix, after the first, at which the header is parsed.
    const MIN_ATTEMPT_BYTES: usize = 64 << 10;

    /// A reader of as many files as `file_lens` has entries: the lengths in bytes, where known.
    #[must_use]
    pub fn new(file_lens: &[Option<u64>]) -> Self {
        Self {
            file_lens: file_lens.to_vec(),
            shard: 0,
            state: Some(State::start()),
            file_bytes: 0,
            received_bytes: 0,
            shards: Shards::default(),
            slab: Slab::default(),
        }
    }

    /// Bytes of all files that have arrived.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Takes the next bytes of the current file; any number of them.
    ///
    /// # Errors
    /// A [`GgufError`] where the file is not valid, or the sink's error. After an error every
    /// further call fails with [`GgufError::Stopped`].
    pub fn push<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<(), S::Error> {
        let state = self.take_state()?;
        let file_len = self.current_file_len()?;
        self.file_bytes = self.file_bytes.saturating_add(bytes.len() as u64);
        self.received_bytes = self.received_bytes.saturating_add(bytes.len() as u64);
        if let Some(announced) = file_len
            && self.file_bytes > announced
        {
            let (shard, received) = (self.shard, self.file_bytes);
            return Err(GgufError::FileLength {
                shard,
                announced,
                received,
            }
            .into());
        }
        let state = match state {
            State::Header { buffer, attempt_at } => {
                self.push_header(buffer, attempt_at, bytes, file_len, sink)?
            }
            State::Data(mut data) => {
                data.push(bytes, &mut self.slab, sink)?;
                State::Data(data)
            }
        };
        self.state = Some(state);
        Ok(())
    }

    /// Says that the current file's bytes are over; the next push starts the next file.
    ///
    /// # Errors
    /// A [`GgufError`] where the header or a tensor is not whole, or fewer bytes arrived than
    /// announced; or the sink's error.
    pub fn end_file<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let state = self.take_state()?;
        let file_len = self.current_file_len()?;
        let data = match state {
            State::Header { buffer, .. } => {
                // Now the length is known, so a header that goes on is one that is cut off.
                match parse(&buffer, Some(self.file_bytes))? {
                    Parsed::Header(header) => self.begin_data(header, &buffer, sink)?,
                    Parsed::NeedMore { .. } => return Err(GgufError::Stopped.into()),
                }
            }
            State::Data(data) => data,
        };
        data.check_whole(self.slab.len)?;
        if let Some(announced) = file_len
            && self.file_bytes != announced
        {
            let (shard, received) = (self.shard, self.file_bytes);
            return Err(GgufError::FileLength {
                shard,
                announced,
                received,
            }
            .into());
        }
        self.shard = self.shard.saturating_add(1);
        self.file_bytes = 0;
        self.state = Some(State::start());
        Ok(())
    }

    /// Says that there are no more files.
    ///
    /// # Errors
    /// A [`GgufError`] where not all files were read to their end, or the shards do not have the
    /// number of tensors that they announce.
    pub fn finish(self) -> Result<(), GgufError> {
        if self.state.is_none() {
            return Err(GgufError::Stopped);
        }
        if self.shard != self.file_lens.len() || self.file_bytes != 0 {
            let (ended, given) = (self.shard, self.file_lens.len());
            return Err(GgufError::ShardsRead { ended, given });
        }
        self.shards.check_total()
    }

    /// Takes the state out; it is put back where all goes well.
    fn take_state(&mut self) -> Result<State, GgufError> {
        self.state.take().ok_or(GgufError::Stopped)
    }

    fn current_file_len(&self) -> Result<Option<u64>, GgufError> {
        let (ended, given) = (self.shard, self.file_lens.len());
        self.file_lens
            .get(self.shard)
            .copied()
            .ok_or(GgufError::ShardsRead { ended, given })
    }

    /// Adds to the header's bytes, never far past the next attempt, so that a large chunk is not
    /// copied whole; parses when they have doubled, so that all attempts together cost about
    /// two.
    fn push_header<S: Sink>(
        &mut self,
        mut buffer: Vec<u8>,
        mut attempt_at: usize,
        mut bytes: &[u8],
        file_len: Option<u64>,
        sink: &mut S,
    ) -> Result<State, S::Error> {
        loop {
            let wanted = attempt_at.saturating_sub(buffer.len()).min(bytes.len());
            let (head, rest) = bytes.split_at(wanted);
            buffer.extend_from_slice(head);
            bytes = rest;
            let all_there = file_len == Some(buffer.len() as u64);
            if buffer.len() < attempt_at && !all_there {
                return Ok(State::Header { buffer, attempt_at });
            }
            match parse(&buffer, file_len)? {
                Parsed::Header(header) => {
                    let mut data = self.begin_data(header, &buffer, sink)?;
                    drop(buffer);
                    data.push(bytes, &mut self.slab, sink)?;
                    return Ok(State::Data(data));
                }
                Parsed::NeedMore { total_bytes } => {
                    let doubled = buffer.len().saturating_mul(2).max(Self::MIN_ATTEMPT_BYTES);
                    let ceiling = file_len.unwrap_or(u64::MAX).min(MAX_HEADER_BYTES);
                    let least = to_usize(total_bytes).max(buffer.len().saturating_add(1));
                    attempt_at = doubled.min(to_usize(ceiling)).max(least);
                    if bytes.is_empty() {
                        return Ok(State::Header { buffer, attempt_at });
                    }
                }
            }
        }
    }

    /// Hands the header on and then those of the file's first bytes that are tensor data.
    fn begin_data<S: Sink>(
        &mut self,
        header: Header,
        start: &[u8],
        sink: &mut S,
    ) -> Result<Data, S::Error> {
        for tensor in &header.tensors {
            let (row_bytes, limit) = (tensor.row_bytes(), Self::MAX_SLAB_BYTES as u64);
            if row_bytes > limit {
                let tensor = tensor.name.clone();
                return Err(GgufError::RowTooLong {
                    tensor,
                    row_bytes,
                    limit,
                }
                .into());
            }
        }
        self.shards.add(self.shard, self.file_lens.len(), &header)?;
        sink.header(self.shard, &header)?;
        let mut data = Data {
            header,
            position: 0,
            tensor: 0,
            row: 0,
        };
        data.push(start, &mut self.slab, sink)?;
        Ok(data)
    }
}

/// Where the reading of one file's tensors stands.
#[derive(Debug)]
struct Data {
    header: Header,
    /// Bytes of the file that are dealt with.
    position: u64,
    /// The tensor to be read next, and its first row that is not handed on yet.
    tensor: usize,
    row: u64,
}

impl Data {
    fn push<S: Sink>(
        &mut self,
        mut bytes: &[u8],
        slab: &mut Slab,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        while !bytes.is_empty() {
            let Some(tensor) = self.header.tensors.get(self.tensor) else {
                self.position = self.position.saturating_add(bytes.len() as u64);
                return Ok(());
            };
            let gap = to_usize(tensor.offset.saturating_sub(self.position));
            let rows = slab_rows(tensor).min(tensor.rows().saturating_sub(self.row));
            let full = to_usize(rows.saturating_mul(tensor.row_bytes()));
            let wanted = if gap > 0 {
                gap
            } else {
                full.saturating_sub(slab.len)
            };
            let (head, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            self.position = self.position.saturating_add(head.len() as u64);
            if gap > 0 {
                continue;
            }
            slab.extend(head);
            if slab.len == full {
                sink.rows(tensor, self.row, slab.bytes())?;
                slab.len = 0;
                self.row = self.row.saturating_add(rows);
                if self.row >= tensor.rows() {
                    self.tensor = self.tensor.saturating_add(1);
                    self.row = 0;
                }
            }
        }
        Ok(())
    }

    fn check_whole(&self, slab_bytes: usize) -> Result<(), GgufError> {
        let Some(tensor) = self.header.tensors.get(self.tensor) else {
            return Ok(());
        };
        let handed_on = self.row.saturating_mul(tensor.row_bytes());
        Err(GgufError::Truncated {
            field: format!("tensor {:?}", tensor.name),
            offset: tensor.offset,
            need: tensor.byte_len,
            left: handed_on.saturating_add(slab_bytes as u64),
        })
    }
}

/// Rows of a tensor that one slab takes, at least one.
fn slab_rows(tensor: &TensorInfo) -> u64 {
    (Reader::MAX_SLAB_BYTES as u64)
        .checked_div(tensor.row_bytes())
        .unwrap_or(1)
        .max(1)
}

/// For sizes that are bounded by bytes at hand or by a limit; saturates where they are not.
fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
