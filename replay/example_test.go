package replay_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay"
)

// Convert the demo corpus, replay it against a server, and read the summary.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "agentx-example-")
	check(err)
	defer os.RemoveAll(root)
	prepared, err := convert.Convert(ctx, convert.Options{
		Root: root, Inputs: []string{"demo"}, Source: hfsource.Options{Embedded: map[string][]byte{"demo": demo.JSONL()}},
	})
	check(err)
	cache, err := mmapcache.Open(root, prepared.Key)
	check(err)
	defer cache.Close()

	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	summary, err := replay.Run(ctx, replay.Options{
		Cache: cache, URLs: []string{server.URL}, Model: "m", Concurrency: 4, Pace: replay.Pace{ASAP: true},
	})
	check(err)
	fmt.Printf("%d of %d requests in %d trees completed\n", summary.Completed, summary.Requests, summary.Trees)
	fmt.Println("errors:", len(summary.Errors))
	// Output:
	// 197 of 197 requests in 16 trees completed
	// errors: 0
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
