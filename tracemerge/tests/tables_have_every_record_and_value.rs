//! Tables in Parquet have each record of a trace with everything in it, and the values of its messages in columns of their
//! types, as the reader of the crate `parquet` reads them.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

mod support;

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_the_command_says_how_to_get_it() {
    let place = support::Place::with_one_file();
    let ran = place.merge(["--format", "parquet", "app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("--features parquet"), "{}", ran.err);
}

#[cfg(feature = "parquet")]
mod with_the_feature {
    use std::collections::HashMap;
    use std::fs::File;
    use std::path::Path;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::{Map, Value, json};

    use super::support::{Everything, everything};

    /// More records than a row group has.
    const SIZE: u64 = 150_000;

    fn value(field: &Field) -> Value {
        match field {
            Field::Null => Value::Null,
            Field::Bool(is_so) => json!(is_so),
            Field::Byte(number) => json!(number),
            Field::Short(number) => json!(number),
            Field::Int(number) => json!(number),
            Field::Long(number) => json!(number),
            Field::UByte(number) => json!(number),
            Field::UShort(number) => json!(number),
            Field::UInt(number) => json!(number),
            Field::ULong(number) => json!(number),
            Field::Float(number) => json!(number),
            Field::Double(number) => json!(number),
            Field::Str(text) => json!(text),
            other => panic!("{other:?}"),
        }
    }

    /// The rows of a table, and the number of its row groups.
    fn rows(path: &Path) -> (Vec<Map<String, Value>>, usize) {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let groups = reader.metadata().num_row_groups();
        let row = |row: parquet::errors::Result<parquet::record::Row>| -> Map<String, Value> {
            row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        };
        (reader.get_row_iter(None).unwrap().map(row).collect(), groups)
    }

    /// The types of a table's columns, by name.
    fn types(path: &Path) -> HashMap<String, String> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let types = schema.columns().iter();
        types
            .map(|of| {
                (
                    of.name().to_owned(),
                    format!("{:?} {:?}", of.physical_type(), of.logical_type_ref().cloned()),
                )
            })
            .collect()
    }

    fn expected(all: &Everything) -> Vec<String> {
        let of = |record: &super::support::Expected| {
            let values = record.values.clone().filter(|values| *values != json!({}));
            json!({
                "ticks": record.ticks, "time": record.ns(), "pid": record.pid, "tid": record.tid, "kind": record.kind,
                "message": record.text, "function": record.function, "values": values,
                "line": record.site.map(|id| all.sites.iter().find(|site| site.id == id).unwrap().line),
            })
        };
        let mut rows: Vec<String> = all.records.iter().map(|record| of(record).to_string()).collect();
        rows.sort();
        rows
    }

    #[test]
    fn the_tables_have_every_record_with_its_values() {
        let all = everything(SIZE);
        let ran = all.place.merge(["--format", "parquet", "--all-runs", "app"]);
        assert_eq!(ran.status, Some(1), "what is damaged is told: {}", ran.err);
        assert!(ran.err.contains("1 message with bytes that are not UTF-8"), "{}", ran.err);
        let folder = all.place.path("app.parquet");
        let (records, groups) = rows(&folder.join("records.parquet"));
        assert!(groups > 1, "{groups} row groups");
        let mut tables: HashMap<String, HashMap<u64, Map<String, Value>>> = HashMap::new();
        let mut found: Vec<String> = records
            .iter()
            .enumerate()
            .map(|(number, row)| {
                assert_eq!(row["record"], number);
                let of = |key: &str, is_wanted: bool| if is_wanted { row[key].clone() } else { Value::Null };
                let values = row["table"].as_str().map(|table| {
                    let table = tables.entry(table.to_owned()).or_insert_with(|| {
                        let (rows, _) = rows(&folder.join(format!("{table}.parquet")));
                        rows.into_iter().map(|row| (row["record"].as_u64().unwrap(), row)).collect()
                    });
                    let mut values = table.remove(&(number as u64)).unwrap();
                    for common in ["record", "ticks", "time", "pid", "tid", "thread"] {
                        assert_eq!(values.remove(common).unwrap(), row[common]);
                    }
                    values
                });
                let (is_message, is_call) = (row["kind"] == "message", row["kind"] == "enter" || row["kind"] == "leave");
                let row = json!({
                    "ticks": row["ticks"], "time": row["time"], "pid": row["pid"], "tid": row["tid"],
                    "kind": row["kind"], "message": of("message", is_message), "function": of("function", is_call),
                    "values": values, "line": row["line"],
                });
                row.to_string()
            })
            .collect();
        assert!(tables.values().all(HashMap::is_empty), "each row of a table is of a record");
        assert_eq!(tables.len(), 2, "{:?}", tables.keys());
        found.sort();
        let expected = expected(&all);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn columns_have_the_types_of_the_values() {
        let all = everything(2_000);
        all.place.merge(["--format", "parquet", "--all-runs", "app", "-o", "x"]);
        let (records, _) = rows(&all.place.path("x/records.parquet"));
        let of_sent = records.iter().find(|row| row["line"] == 12 && row["table"].is_string()).unwrap();
        assert_eq!(of_sent["template"], "sent {0} of {1} at {2}");
        let table = of_sent["table"].as_str().unwrap();
        assert!(table.ends_with("_sent_0_of_1_at_2"), "{table}");
        let types = types(&all.place.path(format!("x/{table}.parquet")));
        let is = |name: &str, of: &str| assert!(types[name].starts_with(of), "{name}: {}", types[name]);
        is("bytes", "INT32 Some(Integer { bit_width: 32, is_signed: true");
        is("total", "INT64 Some(Integer { bit_width: 64, is_signed: false");
        is("rate", "DOUBLE None");
        is("time", "INT64 Some(Timestamp { is_adjusted_to_u_t_c: true, unit: NANOS");
    }
}
