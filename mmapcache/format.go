package mmapcache

import (
	"errors"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// This file describes the files of a cache. It is normative: a program that follows it reads and writes the same bytes.
//
// # A cache root
//
//	ROOT/structure/KEY/   sessions, turns, segments, blocks of a set of traces: no seed, no tokenizer
//	ROOT/starts/KEY/      the placement: where in the prompt corpus every block and filler begins; one seed, one corpus length
//	ROOT/arenas/KEY/      the prompt corpus in three renderings: one text, one tokenizer
//	ROOT/texts/KEY/       recorded messages with their text, of logs
//	ROOT/dataset/KEY/     a manifest that names structure, starts and arenas, or the arenas and a list of shards: a structure and its starts each;
//	                      of logs structure, texts and arenas
//	ROOT/.staging/        what is being built, or what a crash left of it
//
// The traces of a dataset of shards are numbered through the list. What rows of tables say of other rows, and starts.bin of blocks and
// turns, counts within the shard.
//
// Every directory is immutable and named by the hash of everything that could change a byte of it. Its manifest.json
// (package manifest) describes it; the pre-image there names the Format. It has the files below and provenance.json, and
// no others. Parts are published before the dataset that names them.
//
// # Tables
//
// The files of a structure are traces.arrow, sessions.arrow, turns.arrow, segments.arrow, blocks.arrow (runs of block
// ids) and tools.arrow (messages that answer a tool call, where results are shaped so). They are Arrow IPC files with one
// record batch, readable by any Arrow reader. structure.go lists the columns; their rows are the types of plan.go,
// which explain every field. A column of few different strings holds indices into a list of words, which is JSON in the
// metadata of the field. Times are seconds; a time that was not recorded is null, above a NaN. Indices count within the
// trace; the first_* columns of traces.arrow say where a trace begins in the other tables.
//
// The last column of traces.arrow, recorded_start_ms, exists only where some trace has a recorded start: RecordedStart.
//
// # Flat files
//
// All numbers are little-endian. A header of 64 bytes is followed by the elements and nothing else:
//
//	 0  8  magic "agentxF1"
//	 8  4  kind, see below
//	12  4  size of an element, bytes
//	16  8  number of elements, n
//	24 40  zero
//	64     n elements
//
//	file            kind  element  content
//	starts.bin      STRT  3 bytes  first token of every block of every trace, then of the filler of every turn; 4 bytes
//	                               where the corpus has more than 2^24 tokens
//	tokens.u32      TOKS  u32      the prompt corpus as token ids; N of them
//	text.json       TEXT  u8       its bytes, with ", \ and control characters escaped as in a JSON string
//	text.off.u32    TOFF  u32      N+1 byte offsets into text.json: token i is [i, i+1)
//	ids.txt         IDEC  u8       its token ids in decimal, each followed by a comma
//	ids.off.u32     IOFF  u32      N+1 byte offsets into ids.txt
//	splits.u32      SPLT  u32      token boundaries inside a character, ascending
//	illformed.u32   ILLF  u32      tokens with bytes that are no UTF-8 where they stand, ascending
//
// The texts of logs have these files:
//
//	text.json              bytes of bodies, without a header: each distinct text once, escaped as in a JSON string, and raw JSON
//	pieces.bin      PIEC  12 bytes  windows of text.json: u64 offset, u32 length
//	messages.arrow         distinct messages, tools and members of bodies: their role, and their pieces and bytes in the form of each API
//
// A segment of a structure of logs is one message, or a prefix of tokens of the corpus.
//
// A window (start, length) means tokens start, start+1, ..., taken modulo N. For example, starts.bin of one block that
// begins at token 5 and a turn without filler:
//
//	61 67 65 6e 74 78 46 31  53 54 52 54 03 00 00 00  02 00 00 00 00 00 00 00  (40 zeros)
//	05 00 00 00 00 00
//
// # What is not promised
//
// The order of fields in provenance.json, and anything below .staging.
//
// History: Format 1, Recipe 1: the first. Format 2: traces.arrow may have recorded_start_ms. Format 3: a dataset of shards, whose
// manifest has version 2. Format 4: datasets of logs, whose prompts are recorded messages.

// A Format is a version of the layout. The number changes when a file's layout does. This program reads all, and writes
// the oldest one wherever its files are the same: a cache without recorded starts, or of one shard, keeps its key.
const (
	FormatNoStarts = 1           // of all directories but those below
	FormatStarts   = 2           // of structures of recordings that have starts
	FormatShards   = 3           // of datasets whose manifest lists shards
	FormatTexts    = 4           // of datasets of recorded messages, and their structures and texts
	Format         = FormatTexts // the newest that this program reads
)

// Names of the five kinds of directory, in the order in which they are published.
const (
	StructureKind = "structure"
	TextsKind     = "texts"
	PlacementKind = "starts"
	ArenasKind    = "arenas"
	DatasetKind   = "dataset"
)

// Kinds of flat files.
const (
	kindPlacement   = "STRT"
	kindTokens      = "TOKS"
	kindText        = "TEXT"
	kindTextOffsets = "TOFF"
	kindIDs         = "IDEC"
	kindIDOffsets   = "IOFF"
	kindSplits      = "SPLT"
	kindIllFormed   = "ILLF"
)

// Errors that a caller may act on. They are wrapped: use errors.Is.
var (
	// ErrDamaged is wrapped by errors about a file that has changed since it was written, or is missing. They name the
	// file. Convert again, or copy the dataset again.
	ErrDamaged = manifest.ErrDamaged

	// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
	ErrNoCache = cachedir.ErrNoCache

	// ErrDiffers is wrapped by the error of a Publish that would replace a directory: see Builder.Replace.
	ErrDiffers = errors.New("it exists with other content")
)
