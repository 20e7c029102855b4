package mmapcache

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/agentx/agentx/manifest"
)

// Files of texts: recorded messages, sent as they are.
const (
	recordedTextFile = "text.json"      // bytes that bodies are made of, each distinct text once
	piecesFile       = "pieces.bin"     // windows of them, in the order of messages
	messagesFile     = "messages.arrow" // RecordedMessage
)

// MakePrivate lets none but the owner read the directory and its files, whatever the root's mode is.
func (b *Builder) MakePrivate() error { return os.Chmod(b.dir.Path(""), 0o700) }

// kindPieces is the kind of piecesFile.
const kindPieces = "PIEC"

// pieceWords is how many numbers of 32 bits a piece has: its offset, the low half first, and its length.
const pieceWords = 3

// Form is an API in whose form recorded messages are kept.
type Form uint8

// The forms.
const (
	ChatForm      Form = iota // of OpenAI's chat completions
	AnthropicForm             // of Anthropic's Messages
	forms
)

// RecordedMessage is one row of messages.arrow: a distinct message, and which pieces it is in each form. A message of role Tools is the list
// of definitions of a session's tools.
type RecordedMessage struct {
	Role           Role   `column:"role"`
	Lead           uint8  `column:"lead"` // bit f: in form f the first piece ends where the text that the message begins with begins
	ChatFirst      uint32 `column:"first_piece_chat"`
	ChatPieces     uint32 `column:"pieces_chat"`
	ChatBytes      uint32 `column:"bytes_chat"`
	AnthropicFirst uint32 `column:"first_piece_anthropic"`
	AnthropicCount uint32 `column:"pieces_anthropic"`
	AnthropicBytes uint32 `column:"bytes_anthropic"`
}

// in returns the pieces and the bytes of a message in a form.
func (m *RecordedMessage) in(f Form) (first, n, size uint32) {
	if f == AnthropicForm {
		return m.AnthropicFirst, m.AnthropicCount, m.AnthropicBytes
	}
	return m.ChatFirst, m.ChatPieces, m.ChatBytes
}

// recordedTexts are the texts of an open dataset.
type recordedTexts struct {
	messages []RecordedMessage
	pieces   []uint32 // pieceWords of each
	data     []byte
}

// piece returns piece k.
func (t *recordedTexts) piece(k uint32) []byte {
	p := t.pieces[pieceWords*k:][:pieceWords]
	from := uint64(p[1])<<32 | uint64(p[0])
	return t.data[from : from+uint64(p[2])]
}

// HasTexts reports whether the dataset has recorded messages with their text.
func (c *Cache) HasTexts() bool { return c.texts != nil }

// checkTexts opens the texts of a dataset, and checks that its structure names messages that they have.
func (c *Cache) checkTexts() error {
	m, err := c.readPart(TextsKind, c.Manifest.Parts[TextsKind])
	if err == nil {
		err = c.openTexts(m)
	}
	if err != nil {
		return err
	}
	s, err := c.take(c.shards[0])
	if err == nil {
		err = c.checkRecorded(s)
	}
	return err
}

// openTexts opens the texts of a dataset: it maps them, and checks that every message has pieces, and every piece bytes.
func (c *Cache) openTexts(m *manifest.Manifest) error {
	table := newTable[RecordedMessage](messagesFile)
	if err := c.disk.readTable(c.Root, m, table.asFile()); err != nil {
		return err
	}
	files, err := c.mapFiles(m)
	if err != nil {
		return err
	}
	t := &recordedTexts{messages: table.Range(nil, 0, uint32(table.Len())), data: files[recordedTextFile].data}
	body, err := flatBody(files[piecesFile].data, kindPieces, 4*pieceWords)
	if err == nil {
		t.pieces = arrow.GetData[uint32](body)
		err = t.check()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", files[piecesFile].path, err)
	}
	c.texts = t
	return nil
}

func (t *recordedTexts) check() error {
	n := uint64(len(t.pieces) / pieceWords)
	for k := range uint32(n) {
		p := t.pieces[pieceWords*k:]
		if from := uint64(p[1])<<32 | uint64(p[0]); from > uint64(len(t.data)) || uint64(p[2]) > uint64(len(t.data))-from {
			return fmt.Errorf("%w: piece %d lies outside of the %d bytes of text", manifest.ErrDamaged, k, len(t.data))
		}
	}
	for k := range t.messages {
		for f := range forms {
			first, count, size := t.messages[k].in(f)
			if uint64(first)+uint64(count) > n {
				return fmt.Errorf("%w: message %d has pieces [%d,%d), there are %d", manifest.ErrDamaged, k, first, uint64(first)+uint64(count), n)
			}
			sum := uint64(0)
			for p := range count {
				sum += uint64(t.pieces[pieceWords*(first+p)+2])
			}
			if sum != uint64(size) {
				return fmt.Errorf("%w: message %d has %d bytes, its pieces %d", manifest.ErrDamaged, k, size, sum)
			}
		}
	}
	return nil
}

// checkRecorded checks that the segments of a structure name messages that exist.
func (c *Cache) checkRecorded(s *Structure) error {
	for k := range s.Segments.Len() {
		if e := s.Segments.At(k); e.Flags&Recorded != 0 && int(e.First) >= len(c.texts.messages) {
			return fmt.Errorf("%w: segment %d is message %d, there are %d", manifest.ErrDamaged, k, e.First, len(c.texts.messages))
		}
	}
	return nil
}

// TextsWriter writes the texts of a dataset.
type TextsWriter struct {
	b        *Builder
	f        *os.File
	sum      hash.Hash
	size     uint64
	buf      []byte
	pieces   [][]byte // as they stand in the file, pieceBlock in each but the last
	count    int      // of pieces
	messages Table[RecordedMessage]
	err      error
}

// Piece is a stretch of the text of a TextsWriter.
type Piece struct {
	At uint64
	N  uint32
}

// NewTexts begins the texts of a dataset. The builder is that of a directory of kind TextsKind.
func (b *Builder) NewTexts() (*TextsWriter, error) {
	f, err := b.dir.Create(recordedTextFile)
	if err != nil {
		return nil, err
	}
	return &TextsWriter{b: b, f: f, sum: sha256.New(), messages: newTable[RecordedMessage](messagesFile)}, nil
}

// textBuffer is how many bytes a TextsWriter writes at a time, pieceBlock how many pieces it keeps in one stretch of memory: one that grows
// would be copied, and take twice the memory meanwhile.
const (
	textBuffer = 1 << 20
	pieceBlock = 1 << 12
)

// Write appends bytes of a body. Two calls never make one piece of the same bytes: the caller remembers what it has written.
func (w *TextsWriter) Write(b []byte) (Piece, error) {
	if w.err == nil && len(b) > math.MaxUint32 {
		w.err = fmt.Errorf("a text of %d bytes: at most %d", len(b), uint32(math.MaxUint32))
	}
	p := Piece{w.size, uint32(len(b))}
	w.size += uint64(len(b))
	w.buf = append(w.buf, b...)
	if len(w.buf) >= textBuffer {
		w.flush()
	}
	return p, w.err
}

func (w *TextsWriter) flush() {
	if w.err == nil {
		w.sum.Write(w.buf)
		_, w.err = w.f.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Message appends a message and returns its number, from 0. chat and anthropic are its pieces in the two forms; bit f of lead is set where
// in form f (0 chat, 1 anthropic) its first piece is what stands before its first text: Prompt.AppendLead.
func (w *TextsWriter) Message(role Role, lead uint8, chat, anthropic []Piece) (number uint32, err error) {
	m := RecordedMessage{Role: role, Lead: lead}
	for _, form := range [...]struct {
		pieces         []Piece
		first, n, size *uint32
	}{{chat, &m.ChatFirst, &m.ChatPieces, &m.ChatBytes}, {anthropic, &m.AnthropicFirst, &m.AnthropicCount, &m.AnthropicBytes}} {
		*form.first, *form.n = uint32(w.count), uint32(len(form.pieces))
		size := uint64(0)
		for _, p := range form.pieces {
			w.addPiece(p)
			size += uint64(p.N)
		}
		if size > math.MaxUint32 {
			return 0, fmt.Errorf("a message of %d bytes: at most %d", size, uint32(math.MaxUint32))
		}
		*form.size = uint32(size)
	}
	if w.count > math.MaxInt32 {
		return 0, errors.New("more than 2 billion pieces of messages: split the input")
	}
	w.messages.push(m)
	return uint32(w.messages.Len() - 1), w.err
}

func (w *TextsWriter) addPiece(p Piece) {
	if w.count%pieceBlock == 0 {
		w.pieces = append(w.pieces, make([]byte, 0, pieceBlock*4*pieceWords))
	}
	block := &w.pieces[len(w.pieces)-1]
	*block = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(*block, p.At), p.N)
	w.count++
}

// Close ends the texts.
func (w *TextsWriter) Close(facts TextFacts) error {
	w.flush()
	if err := errors.Join(w.err, w.f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", w.b.dir.Path(recordedTextFile), err)
	}
	w.b.addFile(recordedTextFile, int64(w.size), w.sum.Sum(nil))
	err := w.b.writeFiles([]file{
		{name: piecesFile, write: func(to io.Writer) error {
			_, err := to.Write(flatHeader(kindPieces, 4*pieceWords, w.count))
			for k := 0; k < len(w.pieces) && err == nil; k++ {
				_, err = to.Write(w.pieces[k])
			}
			return err
		}},
		w.messages.asFile(),
	})
	if err != nil {
		return err
	}
	facts.Messages, facts.Bytes = w.messages.Len(), int64(w.size)
	return w.b.setFacts(facts)
}

// Abort gives up texts that cannot be finished.
func (w *TextsWriter) Abort() { _ = w.f.Close() } // its directory will be discarded

// TextFacts is what the manifest of texts says about them. It has no text.
type TextFacts struct {
	Messages     int            `json:"messages"`
	FillerTokens int64          `json:"filler_tokens"`      // of all prompts: what the logs lack of them
	Bytes        int64          `json:"bytes"`              // of text
	Counts       map[string]int `json:"counts,omitempty"`   // what was left out or assumed, by name
	Redacted     map[string]int `json:"redacted,omitempty"` // secrets that were replaced, by class
	Formats      []string       `json:"formats"`
}

// TextFactsOf returns what the manifest of texts says about them. Errors wrap ErrDamaged.
func TextFactsOf(m *manifest.Manifest) (f TextFacts, err error) {
	err = decodeFacts(m, &f)
	return f, err
}

// appendRecorded appends a recorded message as Prompt.AppendUpTo does. It stops behind the first piece where lead says so.
func (p *Prompt) appendRecorded(dst []byte, c *Cursor, limit int, lead bool) (_ []byte, ended bool) {
	t, m := p.trace.cache.texts, &p.Messages[c.Message]
	first, n, _ := t.messages[m.recorded-1].in(p.trace.form)
	for ; c.window < n; c.window, c.offset = c.window+1, 0 {
		piece := t.piece(first + c.window)[c.offset:]
		if room := limit - len(dst); room <= 0 {
			return dst, false
		} else if len(piece) > room {
			c.offset += uint32(room)
			return append(dst, piece[:room]...), false
		}
		dst = append(dst, piece...)
		if lead {
			c.window, c.offset = c.window+1, 0
			return dst, false
		}
	}
	*c = Cursor{Message: c.Message + 1}
	return dst, true
}

// Recorded reports whether the message is a recorded one, whose content is all of it as the API has it.
func (m *Message) Recorded() bool { return m.recorded > 0 }

// HasLead reports whether the content of a recorded message begins with a stretch behind which its first text begins: AppendLead.
func (p *Prompt) HasLead(k int) bool {
	m := &p.Messages[k]
	return m.recorded > 0 && p.trace.cache.texts.messages[m.recorded-1].Lead>>p.trace.form&1 == 1
}

// AppendLead appends what stands before the first text of the recorded message at the cursor.
func (p *Prompt) AppendLead(dst []byte, c *Cursor) []byte {
	dst, _ = p.appendRecorded(dst, c, math.MaxInt, true)
	return dst
}
