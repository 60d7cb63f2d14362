// SPDX-License-Identifier: MIT OR Apache-2.0
// Made by `consort accessors` from film.toml: change that, not this.
#![allow(dead_code)] // each program uses its part

/// The member `read`: the calling thread, once it has announced itself.
pub struct Read(consort::Announced);

impl Read {
    pub fn announce() -> Result<Self, consort::Error> {
        let announced = consort::announce("read")?;
        announced.set_state(0, 3)?;
        announced.set_state(1, 1)?;
        announced.set_state(2, 5000000)?;
        Ok(Self(announced))
    }

    pub fn announced(&self) -> &consort::Announced {
        &self.0
    }

    pub fn set_queued(&self, value: i64) -> Result<(), consort::Error> {
        self.0.set_state(0, value)
    }

    pub fn set_busy(&self, value: bool) -> Result<(), consort::Error> {
        let value = i64::from(value);
        self.0.set_state(1, value)
    }

    pub fn set_ahead_ns(&self, value: u64) -> Result<(), consort::Error> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.0.set_state(2, value)
    }

    pub fn begins(&self) -> Result<i64, consort::Error> {
        self.0.control(0)
    }

    pub fn ends(&self) -> Result<i64, consort::Error> {
        self.0.control(1)
    }

    pub fn missed(&self) -> Result<i64, consort::Error> {
        self.0.control(2)
    }
}

/// The member `show-it`: the calling thread, once it has announced itself.
pub struct ShowIt(consort::Announced);

impl ShowIt {
    pub fn announce() -> Result<Self, consort::Error> {
        let announced = consort::announce("show-it")?;
        Ok(Self(announced))
    }

    pub fn announced(&self) -> &consort::Announced {
        &self.0
    }

    pub fn wait_ns(&self) -> Result<u64, consort::Error> {
        Ok(u64::try_from(self.0.control(0)?).unwrap_or(0))
    }

    pub fn quick(&self) -> Result<bool, consort::Error> {
        Ok(self.0.control(1)? != 0)
    }
}
