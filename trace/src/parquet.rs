// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace as an Apache Parquet file: the table's columns with their types, compressed, for data frames.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};

use crate::{
    table::{each_row, TableRow},
    Filter, Trace,
};

/// Texts that a kind of record does not have are null, not empty.
const SCHEMA: &str = "
    message trace {
        REQUIRED INT64 time_ns;
        REQUIRED BYTE_ARRAY kind (STRING);
        OPTIONAL INT32 cpu;
        REQUIRED INT32 tid;
        REQUIRED INT32 pid;
        REQUIRED BYTE_ARRAY command (STRING);
        OPTIONAL INT32 other_tid;
        OPTIONAL BYTE_ARRAY left (STRING);
        OPTIONAL BYTE_ARRAY reason (STRING);
        OPTIONAL BYTE_ARRAY label (STRING);
        REQUIRED INT64 value;
        OPTIONAL INT64 from_ns;
        OPTIONAL INT64 until_ns;
    }
";
/// So many are in memory before they are written.
const GROUP_ROWS: usize = 1 << 17;

/// Writes the records that `filter` wants. What the columns mean is in docs/reference/trace.md.
///
/// # Errors
/// `to` cannot be written to.
pub fn write_parquet(trace: &Trace, filter: &Filter, to: impl Write + Send) -> io::Result<()> {
    write(trace, filter, to, GROUP_ROWS).map_err(|error| match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    })
}

fn write(
    trace: &Trace,
    filter: &Filter,
    to: impl Write + Send,
    group_rows: usize,
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties.build()))?;
    let mut columns = Columns::default();
    each_row(trace, filter, |row| {
        columns.add(&row);
        if columns.time_ns.len() < group_rows {
            return Ok(());
        }
        std::mem::take(&mut columns).write(&mut file)
    })?;
    columns.write(&mut file)?;
    let mut to = file.into_inner()?;
    to.flush().map_err(ParquetError::from)
}

/// The rows that are not written yet.
#[derive(Default)]
struct Columns {
    time_ns: Vec<i64>,
    kind: Vec<ByteArray>,
    cpu: Nullable<i32>,
    tid: Vec<i32>,
    pid: Vec<i32>,
    command: Vec<ByteArray>,
    other_tid: Nullable<i32>,
    left: Nullable<ByteArray>,
    reason: Nullable<ByteArray>,
    label: Nullable<ByteArray>,
    value: Vec<i64>,
    from_ns: Nullable<i64>,
    until_ns: Nullable<i64>,
}

impl Columns {
    fn add(&mut self, row: &TableRow) {
        let text = |text: &str| (!text.is_empty()).then(|| ByteArray::from(text));
        self.time_ns
            .push(i64::try_from(row.time_ns).unwrap_or(i64::MAX));
        self.kind.push(row.kind.into());
        self.cpu.push(row.cpu);
        self.tid.push(row.tid);
        self.pid.push(row.pid);
        self.command.push(row.command.into());
        self.other_tid.push(row.other_tid);
        self.left.push(text(row.left));
        self.reason.push(text(row.reason));
        self.label.push(text(row.label));
        self.value.push(row.value);
        self.from_ns.push(row.from_ns);
        self.until_ns.push(row.until_ns);
    }

    /// In the order of the schema.
    fn write<W: Write + Send>(
        self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        column::<_, Int64Type>(&mut group, &self.time_ns, None)?;
        column::<_, ByteArrayType>(&mut group, &self.kind, None)?;
        self.cpu.write::<_, Int32Type>(&mut group)?;
        column::<_, Int32Type>(&mut group, &self.tid, None)?;
        column::<_, Int32Type>(&mut group, &self.pid, None)?;
        column::<_, ByteArrayType>(&mut group, &self.command, None)?;
        self.other_tid.write::<_, Int32Type>(&mut group)?;
        self.left.write::<_, ByteArrayType>(&mut group)?;
        self.reason.write::<_, ByteArrayType>(&mut group)?;
        self.label.write::<_, ByteArrayType>(&mut group)?;
        column::<_, Int64Type>(&mut group, &self.value, None)?;
        self.from_ns.write::<_, Int64Type>(&mut group)?;
        self.until_ns.write::<_, Int64Type>(&mut group)?;
        group.close().map(drop)
    }
}

/// The values that are there, and for each row whether one is: 1 or 0.
struct Nullable<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Default for Nullable<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            levels: Vec::new(),
        }
    }
}

impl<T> Nullable<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn write<W: Write + Send, D: DataType<T = T>>(
        &self,
        group: &mut SerializedRowGroupWriter<W>,
    ) -> Result<(), ParquetError> {
        column::<W, D>(group, &self.values, Some(&self.levels))
    }
}

/// Writes the next column of the group.
fn column<W: Write + Send, D: DataType>(
    group: &mut SerializedRowGroupWriter<W>,
    values: &[D::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("the schema ends too early".into()));
    };
    column.typed::<D>().write_batch(values, levels, None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::RowAccessor,
    };

    use super::*;
    use crate::{
        file::tests::event, interval::tests::interval, report::tests::traced,
        waits::tests::two_tasks, Became, Miss, Record,
    };

    fn file(records: &[Record], filter: &Filter) -> SerializedFileReader<bytes::Bytes> {
        let mut bytes = Vec::new();
        write_parquet(&traced(records), filter, &mut bytes).unwrap();
        SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap()
    }

    #[test]
    fn each_record_is_a_row_with_types() {
        let mut records = two_tasks();
        records.push(event(500, -3));
        records.push(interval(600, Became::Missed(Miss::Share)));
        let file = file(&records, &Filter::default());
        let rows: Vec<_> = file
            .get_row_iter(None)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows.len(), 7);
        assert_eq!(rows[0].get_long(0).unwrap(), 100);
        assert_eq!(rows[0].get_string(1).unwrap(), "switch");
        assert_eq!(rows[0].get_int(2).unwrap(), 0);
        assert_eq!(rows[0].get_string(7).unwrap(), "preempted");
        // What is not known, or is no text of this kind, is null.
        assert!(rows[5].get_int(2).is_err() && rows[5].get_string(7).is_err());
        assert_eq!(rows[5].get_string(9).unwrap(), "test/value");
        assert_eq!(rows[5].get_long(10).unwrap(), -3);
        assert!(rows[5].get_long(11).is_err() && rows[5].get_long(12).is_err());
        assert_eq!(rows[6].get_string(8).unwrap(), "share");
        assert_eq!(
            (rows[6].get_long(11).unwrap(), rows[6].get_long(12).unwrap()),
            (100, 200)
        );
    }

    #[test]
    fn more_rows_than_a_group_has_are_written() {
        let mut bytes = Vec::new();
        let trace = traced(&two_tasks());
        write(&trace, &Filter::default(), &mut bytes, 2).unwrap();
        let file = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let groups = file.metadata().row_groups().iter();
        assert_eq!(
            groups.map(|it| it.num_rows()).collect::<Vec<_>>(),
            [2, 2, 1]
        );
    }

    #[test]
    fn an_empty_trace_is_a_table_without_rows() {
        let filter = Filter {
            kinds: "demote".parse().unwrap(),
            ..Filter::default()
        };
        let file = file(&two_tasks(), &filter);
        assert_eq!(file.metadata().file_metadata().num_rows(), 0);
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let error = write_parquet(&traced(&two_tasks()), &Filter::default(), Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
