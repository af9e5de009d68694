//! Writes GGUF files, valid ones and hostile ones.

use tokenbrook::gguf::GgmlType;

/// Collects the parts of a file; [`build`](Self::build) writes them.
#[derive(Clone, Debug)]
pub(crate) struct GgufBuilder {
    version: [u8; 4],
    alignment: u64,
    /// Key, then type id and value as they stand in the file.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    tensors: Vec<Tensor>,
    entry_count: Option<u64>,
    tensor_count: Option<u64>,
    with_data: bool,
}

#[derive(Clone, Debug)]
struct Tensor {
    name: Vec<u8>,
    shape: Vec<u64>,
    type_id: u32,
    /// Relative to the tensor data; `None` is after the tensor before.
    offset: Option<u64>,
    data: Vec<u8>,
}

impl GgufBuilder {
    pub(crate) fn v2() -> Self {
        Self::version(2)
    }

    pub(crate) fn v3() -> Self {
        Self::version(3)
    }

    pub(crate) fn version(version: u32) -> Self {
        Self {
            version: version.to_le_bytes(),
            alignment: 32,
            entries: Vec::new(),
            tensors: Vec::new(),
            entry_count: None,
            tensor_count: None,
            with_data: true,
        }
    }

    /// The version's bytes as a big-endian writer puts them.
    pub(crate) fn big_endian_version(mut self) -> Self {
        self.version.reverse();
        self
    }

    /// Writes `general.alignment` and aligns the tensors so.
    pub(crate) fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = u64::from(alignment).max(1);
        self.u32("general.alignment", alignment)
    }

    /// A value of any type id with any bytes.
    pub(crate) fn raw(mut self, key: impl AsRef<[u8]>, type_id: u32, value: &[u8]) -> Self {
        let value = [&type_id.to_le_bytes(), value].concat();
        self.entries.push((key.as_ref().to_vec(), value));
        self
    }

    /// Takes back the keys that start with `prefix`.
    pub(crate) fn without(mut self, prefix: &str) -> Self {
        let is_other = |key: &[u8]| !key.starts_with(prefix.as_bytes());
        self.entries.retain(|(key, _)| is_other(key));
        self
    }

    pub(crate) fn u16(self, key: &str, value: u16) -> Self {
        self.raw(key, 2, &value.to_le_bytes())
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn i32(self, key: &str, value: i32) -> Self {
        self.raw(key, 5, &value.to_le_bytes())
    }

    pub(crate) fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    pub(crate) fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    pub(crate) fn str(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.raw(key, 8, &string(value.as_ref()))
    }

    pub(crate) fn u64(self, key: &str, value: u64) -> Self {
        self.raw(key, 10, &value.to_le_bytes())
    }

    /// An array of `count` elements of type `type_id`, whose bytes are `elements`.
    pub(crate) fn raw_array(self, key: &str, type_id: u32, count: u64, elements: &[u8]) -> Self {
        let value = [&type_id.to_le_bytes()[..], &count.to_le_bytes(), elements].concat();
        self.raw(key, 9, &value)
    }

    pub(crate) fn strings<T: AsRef<[u8]>>(self, key: &str, values: &[T]) -> Self {
        let elements: Vec<u8> = values
            .iter()
            .flat_map(|value| string(value.as_ref()))
            .collect();
        self.raw_array(key, 8, values.len() as u64, &elements)
    }

    pub(crate) fn i32s(self, key: &str, values: &[i32]) -> Self {
        let elements: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.raw_array(key, 5, values.len() as u64, &elements)
    }

    pub(crate) fn u32s(self, key: &str, values: &[u32]) -> Self {
        let elements: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.raw_array(key, 4, values.len() as u64, &elements)
    }

    pub(crate) fn f32s(self, key: &str, values: &[f32]) -> Self {
        let elements: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.raw_array(key, 6, values.len() as u64, &elements)
    }

    /// A tensor whose data has the blocks given; `shape[0]` is contiguous.
    pub(crate) fn tensor(
        self,
        name: impl AsRef<[u8]>,
        ty: GgmlType,
        shape: &[u64],
        data: Vec<u8>,
    ) -> Self {
        self.raw_tensor(name, ty.id(), shape, None, data)
    }

    pub(crate) fn tensor_f32(self, name: &str, shape: &[u64], values: &[f32]) -> Self {
        let data = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.tensor(name, GgmlType::F32, shape, data)
    }

    /// A tensor of any type id at any offset from the tensor data (`None`: after the one before).
    pub(crate) fn raw_tensor(
        mut self,
        name: impl AsRef<[u8]>,
        type_id: u32,
        shape: &[u64],
        offset: Option<u64>,
        data: Vec<u8>,
    ) -> Self {
        let (name, shape) = (name.as_ref().to_vec(), shape.to_vec());
        self.tensors.push(Tensor {
            name,
            shape,
            type_id,
            offset,
            data,
        });
        self
    }

    /// Writes this `metadata_kv_count`, whatever the number of keys.
    pub(crate) fn entry_count(mut self, count: u64) -> Self {
        self.entry_count = Some(count);
        self
    }

    /// Writes this `tensor_count`, whatever the number of tensors.
    pub(crate) fn tensor_count(mut self, count: u64) -> Self {
        self.tensor_count = Some(count);
        self
    }

    /// Ends the file after the tensor directory.
    pub(crate) fn without_data(mut self) -> Self {
        self.with_data = false;
        self
    }

    /// Offset of each tensor from the tensor data.
    fn offsets(&self) -> Vec<u64> {
        let mut next = 0_u64;
        let place = |tensor: &Tensor| {
            let offset = tensor.offset.unwrap_or(next);
            next = offset.saturating_add(tensor.data.len() as u64);
            next = next
                .checked_next_multiple_of(self.alignment)
                .unwrap_or(next);
            offset
        };
        self.tensors.iter().map(place).collect()
    }

    /// The bytes of the file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut file = self.directory();
        if !self.with_data {
            return file;
        }
        let alignment = usize::try_from(self.alignment).expect("a small alignment");
        file.resize(file.len().next_multiple_of(alignment), 0);
        let data_start = file.len();
        for (tensor, offset) in self.tensors.iter().zip(self.offsets()) {
            let Ok(offset) = usize::try_from(offset) else {
                continue;
            };
            if tensor.data.is_empty() || offset > 1 << 32 {
                continue;
            }
            let start = data_start + offset;
            let end = start + tensor.data.len();
            file.resize(file.len().max(end), 0);
            file[start..end].copy_from_slice(&tensor.data);
        }
        file
    }

    /// The bytes up to the end of the tensor directory.
    pub(crate) fn directory(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version);
        let count = |stated: Option<u64>, real: usize| stated.unwrap_or(real as u64).to_le_bytes();
        file.extend(count(self.tensor_count, self.tensors.len()));
        file.extend(count(self.entry_count, self.entries.len()));
        for (key, value) in &self.entries {
            file.extend(string(key));
            file.extend(value);
        }
        for (tensor, offset) in self.tensors.iter().zip(self.offsets()) {
            file.extend(string(&tensor.name));
            let dimensions = u32::try_from(tensor.shape.len()).expect("few dimensions");
            file.extend(dimensions.to_le_bytes());
            file.extend(
                tensor
                    .shape
                    .iter()
                    .flat_map(|dimension| dimension.to_le_bytes()),
            );
            file.extend(tensor.type_id.to_le_bytes());
            file.extend(offset.to_le_bytes());
        }
        file
    }

    /// One builder a shard, as `gguf-split` cuts: all metadata in the first, the tensors in
    /// runs, `split.*` in each. `build` each of them.
    pub(crate) fn into_shards(self, count: u16) -> Vec<Self> {
        let total = i32::try_from(self.tensors.len()).expect("few tensors");
        let run = self.tensors.len().div_ceil(usize::from(count)).max(1);
        let mut runs = self.tensors.chunks(run).map(<[Tensor]>::to_vec);
        let shard = |number: u16| {
            let mut shard = Self {
                tensors: runs.next().unwrap_or_default(),
                ..self.clone()
            };
            if number > 0 {
                shard.entries.clear();
            }
            let shard = shard.u16("split.no", number).u16("split.count", count);
            shard.i32("split.tensors.count", total)
        };
        (0..count).map(shard).collect()
    }
}

/// A string as it stands in a file: 64-bit length, bytes.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}
