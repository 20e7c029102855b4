package parquet_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	library "github.com/parquet-go/parquet-go"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
)

// Write a file of two rows with a library, and read one column of it.
func Example() {
	type row struct {
		ID string `parquet:"id"`
		T  int64  `parquet:"t"`
	}
	var data bytes.Buffer
	if err := library.Write(&data, []row{{"a", 1}, {"b", 2}}); err != nil {
		log.Fatal(err)
	}
	f, err := parquet.Open(bytes.NewReader(data.Bytes()), int64(data.Len()))
	if err != nil {
		log.Fatal(err)
	}
	n, err := f.Rows(context.Background(), []string{"id"}, func(row *column.Row, free func()) error {
		defer free()
		fmt.Println(row.Wanted[0].Texts)
		return nil
	})
	fmt.Println(n, err)
	// Output:
	// [a]
	// [b]
	// 2 <nil>
}
