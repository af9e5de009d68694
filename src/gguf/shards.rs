use std::collections::BTreeSet;

use super::{GgufError, Header};

/// What must agree between the files of one model.
#[derive(Debug, Default)]
pub(super) struct Shards {
    names: BTreeSet<String>,
    /// `split.tensors.count`, where the files state it.
    announced: Option<u32>,
    tensors: u64,
}

impl Shards {
    pub(super) fn add(
        &mut self,
        shard: usize,
        given: usize,
        header: &Header,
    ) -> Result<(), GgufError> {
        let metadata = &header.metadata;
        let count = metadata.u32("split.count")?;
        let number = metadata.u32("split.no")?;
        let announced = metadata.u32("split.tensors.count")?;
        if given > 1 {
            let key = if count.is_none() {
                "split.count"
            } else {
                "split.no"
            };
            if count.is_none() || number.is_none() {
                return Err(GgufError::NotAShard { shard, key });
            }
        }
        // Some writers put a count of 0 into files that are whole.
        if let Some(count) = count.filter(|&count| count != 0 || given > 1)
            && count as usize != given
        {
            return Err(GgufError::ShardCount {
                shard,
                count,
                given,
            });
        }
        if let Some(number) = number
            && number as usize != shard
        {
            return Err(GgufError::ShardOrder { shard, number });
        }
        self.add_tensors(shard, given, announced, header)
    }

    fn add_tensors(
        &mut self,
        shard: usize,
        given: usize,
        announced: Option<u32>,
        header: &Header,
    ) -> Result<(), GgufError> {
        if let (Some(expected), Some(found)) = (self.announced, announced)
            && expected != found
        {
            return Err(GgufError::ShardTensors {
                shard,
                expected,
                found: found.into(),
            });
        }
        self.announced = self.announced.or(announced);
        self.tensors = self.tensors.saturating_add(header.tensors.len() as u64);
        if given > 1 {
            for tensor in &header.tensors {
                if !self.names.insert(tensor.name.clone()) {
                    let tensor = tensor.name.clone();
                    return Err(GgufError::DuplicateTensor { tensor, shard });
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_total(&self) -> Result<(), GgufError> {
        match self.announced {
            Some(expected) if u64::from(expected) != self.tensors => Err(GgufError::ShardTensors {
                shard: 0,
                expected,
                found: self.tensors,
            }),
            _ => Ok(()),
        }
    }
}
