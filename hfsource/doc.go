// Package hfsource reads the rows of datasets: files, directories, standard input, data embedded in a program, and datasets
// of the Hugging Face hub (package hub). It does not interpret rows.
//
//	snapshot, err := hfsource.Resolve(ctx, []string{"traces.jsonl", "hf://datasets/owner/name"}, hfsource.Options{})
//	...
//	defer snapshot.Close()
//	err = snapshot.Rows(ctx, nil, nil, func(row hfsource.Row) error {
//		defer row.Free()
//		fmt.Println(row.Location(), len(row.Data))
//		return nil
//	})
//
// Resolve lists the files of the inputs and fixes their content by sha256, which the hub names for its files and Resolve
// computes for the others. Rows streams the rows in order and compares the digest of what it read. If a file has changed in
// between, Rows returns an error after its rows.
//
// Files hold JSON lines, one JSON value, or Parquet. A row of a Parquet file has columns (package column) in place of JSON.
// The rows in flight share a MemoryBudget, so that small files with huge rows do not exhaust the memory.
package hfsource
