package mmapcache

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// golden is the example of format.go: starts.bin of one block that begins at token 5 and a turn without filler.
const golden = `61 67 65 6e 74 78 46 31  53 54 52 54 03 00 00 00  02 00 00 00 00 00 00 00
	00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
	05 00 00 00 00 00`

// unhex reads bytes written out in hex.
func unhex(t *testing.T, text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	require.NoError(t, err)
	return b
}

func TestStartsByteByByte(t *testing.T) {
	y := plainToy(20)
	y.plans = []*Plan{{
		Trace:    Trace{ID: "t", BlockSize: 4, Blocks: 1},
		Sessions: []Session{{ID: "t", Parent: None, Turns: 1, SpawnTurn: None, JoinTurn: None}},
		Turns:    []Turn{{In: 4, HashIDs: 1, Last: 0}},
		Segments: []Segment{{Parent: None, Role: User, Count: 1}},
		Runs:     []BlockRun{{Scope: "t", ID: 7, Count: 1}},
	}}
	y.starts = [][]uint32{{5, 0}}
	root := t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	got, err := os.ReadFile(filepath.Join(root, PlacementKind, c.Manifest.Parts[PlacementKind].Key, placementFile))
	require.NoError(t, err)
	assert.Equal(t, unhex(t, golden), got)
}

func TestFlatFilesByteByByte(t *testing.T) {
	var words, text bytes.Buffer
	require.NoError(t, writeFlat(&words, kindTokens, []uint32{1, 0x04030201}))
	require.NoError(t, writeFlat(&text, kindText, []byte("hi")))
	zeros := strings.Repeat("00", 40)
	assert.Equal(t, unhex(t, "6167656e74784631 544f4b53 04000000 0200000000000000"+zeros+"01000000 01020304"), words.Bytes())
	assert.Equal(t, unhex(t, "6167656e74784631 54455854 01000000 0200000000000000"+zeros+"6869"), text.Bytes())
}

func TestFlatFilesOfEveryShortLength(t *testing.T) {
	for n := range 9 {
		list := make([]uint32, n)
		for k := range list {
			list[k] = uint32(k + 1)
		}
		var file bytes.Buffer
		require.NoError(t, writeFlat(&file, kindSplits, list))
		got, err := readFlat[uint32](file.Bytes(), kindSplits)
		require.NoError(t, err)
		assert.Len(t, got, n)
		assert.Equal(t, list, append([]uint32{}, got...))
		for cut := range file.Len() {
			_, err := readFlat[uint32](file.Bytes()[:cut], kindSplits)
			assert.ErrorIs(t, err, manifest.ErrDamaged)
		}
		_, err = readFlat[uint32](append(file.Bytes(), 0), kindSplits)
		assert.ErrorIs(t, err, manifest.ErrDamaged)
	}
}

func TestEveryBitOfAHeaderCounts(t *testing.T) {
	header := unhex(t, golden)
	for k := range headerSize * 8 {
		data := bytes.Clone(header)
		data[k/8] ^= 1 << (k % 8)
		_, err := readPlacement(data)
		assert.ErrorIs(t, err, manifest.ErrDamaged, "bit %d", k)
	}
}

func TestStartsTakeFourBytesInALargeCorpus(t *testing.T) {
	assert.Equal(t, 3, startWidth(1<<24))
	assert.Equal(t, 4, startWidth(1<<24+1))
	table, err := readPlacement(append(flatHeader(kindPlacement, 4, 2), 1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff))
	require.NoError(t, err)
	assert.Equal(t, 2, table.len())
	assert.Equal(t, uint32(0x04030201), table.at(0))
	assert.Equal(t, uint32(0xffffffff), table.at(1))
}
