package cachestore_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agentx/agentx/mmapcache/cachestore"
)

// A new root holds nothing, and a search in it says so.
func Example() {
	root, err := os.MkdirTemp("", "agentx-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	list, err := cachestore.List(root)
	fmt.Println(len(list), err)
	freed, err := cachestore.GC(context.Background(), root, cachestore.GCOptions{})
	fmt.Println(freed.Freed, err)
	// Output:
	// 0 <nil>
	// 0 <nil>
}
