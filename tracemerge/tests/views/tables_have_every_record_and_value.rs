//! Tables in Parquet have each record of a trace with everything in it, and the values of its messages in columns of
//! their types, according to the reader of the crate `parquet`, and to DuckDB if `.ci/readers` has installed it.
#![allow(clippy::unwrap_used, reason = "a failure in a test fails it")]

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_the_command_says_how_to_get_it() {
    let place = crate::support::Place::with_one_file();
    let ran = place.merge(["--format", "parquet", "app"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("--features parquet"), "{}", ran.err);
}

#[cfg(feature = "parquet")]
mod with_the_feature {
    use std::collections::{BTreeMap, HashMap};
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;

    use parquet::file::metadata::ColumnChunkMetaData;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::statistics::Statistics;
    use parquet::record::Field;
    use serde_json::{Map, Value, json};

    use crate::support::{Everything, Expected, everything, readers};

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
            Field::TimestampMicros(number) => json!(number),
            Field::Float(number) => json!(number),
            Field::Double(number) => json!(number),
            Field::Str(text) => json!(text),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the rows of a table, and the number of its row groups. Checks that the least and the largest integers
    /// that each group states are those of its rows.
    fn rows(path: &Path) -> (Vec<Map<String, Value>>, usize) {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let groups = reader.metadata().num_row_groups();
        let row = |row: parquet::errors::Result<parquet::record::Row>| -> Map<String, Value> {
            row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        };
        let mut all = Vec::new();
        for number in 0..groups {
            let rows: Vec<_> =
                reader.get_row_group(number).unwrap().get_row_iter(None).unwrap().map(row).collect();
            let told: Vec<_> =
                reader.metadata().row_group(number).columns().iter().filter_map(range).collect();
            assert!(told.iter().any(|(name, ..)| name == "time"), "times have a range");
            for (name, least, largest) in told {
                let numbers =
                    || rows.iter().filter(|row| !row[&name].is_null()).map(|row| integer(&row[&name]));
                assert_eq!((Some(least), Some(largest)), (numbers().min(), numbers().max()), "{name}");
            }
            all.extend(rows);
        }
        (all, groups)
    }

    fn integer(value: &Value) -> i128 {
        value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)).unwrap()
    }

    /// Returns the name of a column of integers, and the least and the largest number that the file states for its
    /// part in a row group.
    fn range(column: &ColumnChunkMetaData) -> Option<(String, i128, i128)> {
        let (least, largest): (i64, i64) = match column.statistics()? {
            Statistics::Int64(of) => (*of.min_opt()?, *of.max_opt()?),
            _ => return None,
        };
        Some((column.column_descr().name().to_owned(), least.into(), largest.into()))
    }

    /// Returns the types of a table's columns, by name.
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
        let of = |record: &Expected| {
            let mut values = record.values.clone().filter(|values| *values != json!({}));
            // All integers are signed.
            for value in values.as_mut().and_then(Value::as_object_mut).into_iter().flatten() {
                *value.1 = value.1.as_u64().map_or_else(|| value.1.clone(), |number| json!(number as i64));
            }
            json!({
                "ticks": record.ticks, "time": record.ns() / 1000, "pid": record.pid, "tid": record.tid, "kind": record.kind,
                "message": record.text, "function": record.function, "values": values,
                "line": record.site.map(|id| all.sites.iter().find(|site| site.id == id).unwrap().line),
            })
        };
        all.records.iter().map(|record| of(record).to_string()).collect()
    }

    /// Compares the tables, whose rows `rows_of` returns by the table's name, with the expected rows.
    fn compare(mut expected: Vec<String>, rows_of: impl Fn(&str) -> Vec<Map<String, Value>>) {
        let mut tables: HashMap<String, HashMap<u64, Map<String, Value>>> = HashMap::new();
        let mut found: Vec<String> = rows_of("records")
            .iter()
            .enumerate()
            .map(|(number, row)| {
                assert_eq!(row["record"], number);
                let of = |key: &str, is_wanted: bool| if is_wanted { row[key].clone() } else { Value::Null };
                let values = row["table"].as_str().map(|table| {
                    let table = tables.entry(table.to_owned()).or_insert_with(|| {
                        let rows = rows_of(table).into_iter();
                        rows.map(|row| (row["record"].as_u64().unwrap(), row)).collect()
                    });
                    let mut values = table.remove(&(number as u64)).unwrap();
                    for common in ["record", "ticks", "time", "pid", "tid", "thread"] {
                        assert_eq!(values.remove(common).unwrap(), row[common]);
                    }
                    values
                });
                let (is_message, is_call) =
                    (row["kind"] == "message", row["kind"] == "enter" || row["kind"] == "leave");
                let row = json!({
                    "ticks": row["ticks"], "time": row["time"], "pid": row["pid"], "tid": row["tid"],
                    "kind": row["kind"], "message": of("message", is_message || row["kind"] == "stack"), "function": of("function", is_call),
                    "values": values, "line": row["line"],
                });
                row.to_string()
            })
            .collect();
        assert!(tables.values().all(HashMap::is_empty), "each row of a table is of a record");
        assert_eq!(tables.len(), 2, "{:?}", tables.keys());
        found.sort();
        expected.sort();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn the_tables_have_every_record_with_its_values() {
        let all = everything(SIZE);
        let ran = all.place.merge(["--format", "parquet", "--all-runs", "app"]);
        assert_eq!(ran.status, Some(1), "the damage is reported: {}", ran.err);
        assert!(ran.err.contains("1 message with bytes that are not UTF-8"), "{}", ran.err);
        let folder = all.place.path("app.parquet");
        let (_, groups) = rows(&folder.join("records.parquet"));
        assert!(groups > 1, "{groups} row groups");
        compare(expected(&all), |table| rows(&folder.join(format!("{table}.parquet"))).0);
    }

    /// Runs queries in DuckDB in a directory; returns the rows of each.
    fn asked(readers: &Path, place: &Path, queries: &[String]) -> Vec<Vec<Vec<Value>>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/query.py");
        let mut python = Command::new(readers.join("python/bin/python"));
        let output = python.current_dir(place).arg(script).args(queries).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn duckdb_finds_each_record_and_answers_the_documented_queries() {
        let Some(readers) = readers() else { return };
        let all = everything(SIZE);
        let ran = all.place.merge(["--format", "parquet", "--all-runs", "app"]);
        assert_eq!(ran.status, Some(1), "{}", ran.err);
        let rows_of = |table: &str| -> Vec<Map<String, Value>> {
            let query = format!(
                "select to_json(t) from (select * replace (epoch_us(time) as time) from 'app.parquet/{table}.parquet') t \
                 order by record"
            );
            let rows = asked(&readers, &all.place.path(""), &[query]).remove(0);
            rows.iter().map(|row| serde_json::from_str(row[0].as_str().unwrap()).unwrap()).collect()
        };
        // The rows come as JSON, whose reader may read a float with another last bit than the one that was written.
        let read = |row: &String| serde_json::from_str::<Value>(row).unwrap().to_string();
        compare(expected(&all).iter().map(read).collect(), rows_of);

        // The queries are in a block of their own.
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats.md");
        let document = std::fs::read_to_string(document).unwrap();
        let (_, behind) = document.split_once("```sql\n").unwrap();
        let (block, _) = behind.split_once("```").unwrap();
        let queries = block.split_terminator(";\n").map(str::to_owned).collect::<Vec<_>>();
        let told = asked(&readers, &all.place.path(""), &queries);
        let [kinds, most, negative] = &told[..] else { panic!("{queries:?}") };
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        all.records.iter().for_each(|record| *counts.entry(record.kind).or_default() += 1);
        let found = kinds.iter().map(|row| (row[0].as_str().unwrap(), row[1].as_u64().unwrap()));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), counts);

        let labels = rows_of("records").into_iter();
        let labels: HashMap<u64, Value> =
            labels.map(|row| (row["tid"].as_u64().unwrap(), row["thread"].clone())).collect();
        let mut sent: Vec<_> =
            all.records.iter().filter(|of| of.site == Some(1) && of.values.is_some()).collect();
        // The order of the merge.
        sent.sort_by_key(|record| (record.ticks, record.pid, record.tid));
        let bytes = |record: &Expected| record.values.as_ref().unwrap()["bytes"].as_i64().unwrap();
        let mut greatest: BTreeMap<&str, i64> = BTreeMap::new();
        for record in &sent {
            let most = greatest.entry(labels[&record.tid].as_str().unwrap()).or_insert(i64::MIN);
            *most = bytes(record).max(*most);
        }
        let found = most.iter().map(|row| (row[0].as_str().unwrap(), row[1].as_i64().unwrap()));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), greatest);

        let first = sent.into_iter().filter(|record| bytes(record) < 0).take(10);
        let first: Vec<&str> = first.map(|record| record.text.as_deref().unwrap()).collect();
        assert!(!first.is_empty(), "some bytes are negative");
        assert_eq!(negative.iter().map(|row| row[1].as_str().unwrap()).collect::<Vec<_>>(), first);
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
        is("bytes", "INT64 Some(Integer { bit_width: 64, is_signed: true");
        is("total", "INT64 Some(Integer { bit_width: 64, is_signed: true");
        is("rate", "DOUBLE None");
        is("time", "INT64 Some(Timestamp { is_adjusted_to_u_t_c: true, unit: MICROS");
    }
}
