// Package parquet reads the rows of Parquet files as columns, within bounded memory.
//
//	f, err := parquet.Open(reader, size)
//	if err != nil {
//		return err
//	}
//	n, err := f.Rows(ctx, []string{"id", "requests[].t"}, func(row *column.Row, free func()) error {
//		defer free()
//		fmt.Println(row.Wanted[0].Texts, row.Wanted[1].Floats)
//		return nil
//	})
//
// Open reads and checks the footer. Rows streams the row groups: in memory are one page of each requested column and the
// current row. Package column describes paths and rows.
//
// # Why not the readers of a library
//
// The library parquet-go parses the footer and decodes packed integers. Pages, levels, lists and dictionaries are read
// here, because the traces are lists of numbers inside lists of records, and the readers of libraries do not suit them:
// measured on the 600 public traces, this package takes 0.3 to 0.6 s of CPU and allocates 65 MB; the record reader of
// arrow-go takes 2 to 3 s and allocates 2.5 GB; the row reader of parquet-go loses ids without an error.
//
// A file is not trusted. Every size that it states is checked against a limit before memory is allocated for it, and a page
// must hold exactly as many values as its header and its levels state.
//
// # What is supported
//
// Compression: none, snappy, gzip, zstd, brotli and LZ4_RAW. Encodings: PLAIN, dictionaries, DELTA_BINARY_PACKED,
// DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY and BYTE_STREAM_SPLIT. Pages of version 1 and 2. Anything else is an
// *UnsupportedError, which says how to write the file again: among it LZO, encryption, levels as BIT_PACKED, and the
// deprecated compression LZ4, whose framing the format does not define.
package parquet
