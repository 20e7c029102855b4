package convert

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
)

// The memory for the plans of all traces is bounded. The first plan beyond the bound ends the conversion.
func TestStructureThatTakesTooMuch(t *testing.T) {
	m := newMerger(hfsource.NewMemoryBudget(t.Context(), 0), Options{Rules: rules.Default()}, bounds{}, nil)
	next := func(id string) plannedTrace {
		tr, err := weka.Scan([]byte(traceText(id)), rules.Default())
		require.NoError(t, err)
		return planTrace(tr, plannedTrace{}, rules.Default())
	}
	a, b := next("a"), next("b")
	_, err := m.memory.Retain(512<<20 - retainedBytes(a))
	require.NoError(t, err)
	require.NoError(t, m.append(a))
	var much *hfsource.MemoryLimitError
	require.ErrorAs(t, m.append(b), &much)
	require.Equal(t, 1, m.structure.Traces.Len())
}

// A shard that is written takes no memory, however many there are: neither as counted, which is what refuses an input, nor in the heap.
func TestWrittenShardsTakeNoMemory(t *testing.T) {
	seconds(t)
	const rows, each = 8192, 64
	o := options(t, lines(t, manyRows(rows)...))
	o.shardRows = each
	o.Memory = func(bytes int64) { assert.Less(t, bytes, int64(toldStep)) }
	var heap []uint64 // when a shard in four is begun
	var mu sync.Mutex
	builders := 0
	o.disk.Step = func(name, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if name != "mkdir" || !strings.Contains(path, durable.StagingDir) {
			return nil
		}
		if builders++; builders%(2*rows/each/4) == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heap = append(heap, m.HeapAlloc)
		}
		return nil
	}
	require.Equal(t, rows/each, o.convert(t).Shards.Total)
	require.GreaterOrEqual(t, len(heap), 4)
	assert.Less(t, heap[3], heap[0]+4<<20)
}
