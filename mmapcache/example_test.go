package mmapcache_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/agentx/agentx/mmapcache"
)

// Open a dataset and print every prompt of its first trace.
func Example() {
	root, err := os.MkdirTemp("", "agentx-example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	key, err := build(context.Background(), root)
	if err != nil {
		log.Fatal(err)
	}

	c, err := mmapcache.Open(root, key)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	trace, err := c.Render(0, mmapcache.Text)
	if err != nil {
		log.Fatal(err)
	}
	var prompt mmapcache.Prompt
	for turn := range trace.Turns {
		trace.Prompt(turn, &prompt)
		fmt.Printf("turn %d: %d tokens\n", turn, prompt.Tokens)
		for k, m := range prompt.Messages {
			fmt.Printf("  %s: %s\n", m.Role, prompt.AppendText(nil, k))
		}
	}
	// Output:
	// turn 0: 32 tokens
	//   system: You are a coder.
	//   user: List every file.
	// turn 1: 64 tokens
	//   system: You are a coder.
	//   user: List every file.
	//   assistant: go.mod, main.go.
	//   user: Run all 4 tests.
}

// build writes a dataset of one trace of two turns, whose messages are blocks of 16 tokens. A token is one byte.
func build(ctx context.Context, root string) (key string, err error) {
	const corpus = "You are a coder." + "List every file." + "go.mod, main.go." + "Run all 4 tests."
	structure := mmapcache.NewStructure()
	err = structure.Append(&mmapcache.Plan{
		Trace:    mmapcache.Trace{ID: "t", Scope: "local", BlockSize: 16, Blocks: 4},
		Sessions: []mmapcache.Session{{ID: "t", Parent: mmapcache.None, Turns: 2, SpawnTurn: mmapcache.None, JoinTurn: mmapcache.None}},
		Turns:    []mmapcache.Turn{{In: 32, HashIDs: 2, Last: 1}, {T: 5, In: 64, HashIDs: 4, Last: 3}},
		Segments: []mmapcache.Segment{
			{Parent: mmapcache.None, Role: mmapcache.System, First: 0, Count: 1},
			{Parent: 0, Role: mmapcache.User, First: 1, Count: 1},
			{Parent: 1, Role: mmapcache.Assistant, First: 2, Count: 1},
			{Parent: 2, Role: mmapcache.User, First: 3, Count: 1},
		},
		Runs: []mmapcache.BlockRun{{Scope: "t", ID: 1, First: 0, Count: 4}},
	})
	if err != nil {
		return "", err
	}
	parts := map[string]func(*mmapcache.Builder) error{
		mmapcache.StructureKind: func(b *mmapcache.Builder) error {
			return b.BuildStructure(structure, mmapcache.StructureFacts{Traces: 1, Sessions: 1, Turns: 2, Blocks: 4})
		},
		mmapcache.PlacementKind: func(b *mmapcache.Builder) error {
			table, err := b.NewPlacement(6, len(corpus)) // 4 blocks, and the fillers of 2 turns, which are empty
			if err != nil {
				return err
			}
			if err := table.Put(0, []uint32{0, 16, 32, 48, 0, 0}); err != nil {
				return err
			}
			return table.Close(ctx)
		},
		mmapcache.ArenasKind: func(b *mmapcache.Builder) error {
			return b.BuildArenas(mmapcache.PromptCorpus{Tokens: tokens(corpus), Bytes: bytesOf}, mmapcache.NewMarkerPieces(tokens))
		},
	}
	dataset, err := mmapcache.NewBuilder(ctx, root, mmapcache.DatasetKind, "dataset of the example")
	if err != nil {
		return "", err
	}
	defer dataset.Discard()
	for _, kind := range mmapcache.PartKinds() {
		b, err := mmapcache.NewBuilder(ctx, root, kind, kind+" of the example")
		if err != nil {
			return "", err
		}
		defer b.Discard()
		if err := parts[kind](b); err != nil {
			return "", err
		}
		m, err := b.Publish(ctx, mmapcache.Provenance{})
		if err != nil {
			return "", err
		}
		dataset.AddPart(m)
	}
	_, err = dataset.Publish(ctx, mmapcache.Provenance{})
	return dataset.Key(), err
}

func tokens(text string) (ids []uint32) {
	for _, b := range []byte(text) {
		ids = append(ids, uint32(b))
	}
	return ids
}

func bytesOf(id uint32) ([]byte, bool) { return []byte{byte(id)}, id < 256 }
