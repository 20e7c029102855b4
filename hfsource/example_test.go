package hfsource_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/hfsource"
)

// Read the rows of a local file.
func Example() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "traces.jsonl")
	if err := os.WriteFile(path, []byte(`{"id":"a"}`+"\n"+`{"id":"b"}`+"\n"), 0o666); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	snapshot, err := hfsource.Resolve(ctx, []string{path}, hfsource.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer snapshot.Close()
	fmt.Println("sha256", snapshot.Files[0].SHA256[:8])
	err = snapshot.Rows(ctx, nil, nil, func(row hfsource.Row) error {
		defer row.Free()
		if row.Err != nil {
			return row.Err
		}
		fmt.Printf("line %d: %s\n", row.Line, row.Data)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// sha256 aed840b5
	// line 1: {"id":"a"}
	// line 2: {"id":"b"}
}
