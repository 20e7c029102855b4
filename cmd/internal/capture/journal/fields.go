package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefix of a line: the place of its CRC, and a blank.
const prefix = "00000000 "

// fields is the JSON of a line, over whose members one function passes to write and to read them. Words are of closed lists or
// patterns, so that none needs an escape.
type fields struct {
	text  []byte // that is written, or what is left of it to be read
	reads bool
	err   error // the first one
}

// errOther is about a line with other members, in another order or spelling.
var errOther = errors.New("not a line that this version writes")

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// begin begins a line of a kind. A reader has found its kind before.
func (f *fields) begin(kind string) {
	if !f.reads {
		f.text = fmt.Appendf(f.text, `{"k":"%s"`, kind)
	}
}

// member passes over the key of a member. It reports false for one that is left out: it has a value that it usually has, the first of
// which is read then.
func member[T comparable](f *fields, name string, v *T, usual []T) bool {
	key := `,"` + name + `":`
	if !f.reads {
		if slices.Contains(usual, *v) {
			return false
		}
		f.text = append(f.text, key...)
		return true
	}
	rest, found := bytes.CutPrefix(f.text, []byte(key))
	if f.text = rest; found {
		return true
	}
	if len(usual) == 0 {
		f.fail(errOther)
		return false
	}
	*v = usual[0]
	return false
}

// take takes what is to be read up to a byte of a set.
func (f *fields) take(until string) []byte {
	end := max(0, bytes.IndexAny(f.text, until))
	value := f.text[:end]
	f.text = f.text[end:]
	return value
}

// number passes over a number between two bounds.
func number[N ~int | ~int64 | ~uint8](f *fields, name string, v *N, least, most int64, usual ...N) {
	if !member(f, name, v, usual) {
		return
	}
	if !f.reads {
		f.text = strconv.AppendInt(f.text, int64(*v), 10)
		return
	}
	n, err := strconv.ParseInt(string(f.take(",}")), 10, 64)
	switch {
	case err != nil:
		f.fail(errOther)
	case n < least || n > most:
		f.fail(fmt.Errorf("%s %d: want %d to %d", name, n, least, most))
	default:
		*v = N(n)
	}
}

// milliseconds passes over a duration, unless it is 0.
func milliseconds(f *fields, name string, d *time.Duration) {
	ms := d.Milliseconds()
	number(f, name, &ms, 0, maxMillis, 0)
	*d = time.Duration(ms) * time.Millisecond
}

// word passes over a word that is good; where good is nil, any is.
func word[S ~string](f *fields, name string, v *S, good func(string) bool, usual ...S) {
	if !member(f, name, v, usual) {
		return
	}
	if !f.reads {
		f.text = append(append(append(f.text, '"'), *v...), '"')
		return
	}
	text := f.take(",}")
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		f.fail(errOther)
		return
	}
	if *v = S(text[1 : len(text)-1]); good != nil && !good(string(*v)) {
		f.fail(fmt.Errorf("%s: not in the list of its values", name))
	}
}

// of returns what reports whether a word is of a list.
func of[S ~string](list []S) func(string) bool {
	return func(word string) bool { return slices.Contains(list, S(word)) }
}

// set passes over the words of a set, unless it is empty.
func set[S ~uint8](f *fields, name string, v *S, all []string) {
	if !member(f, name, v, []S{0}) {
		return
	}
	names := namesOf(*v, all)
	if !f.reads {
		text, _ := json.Marshal(names) // words always marshal
		f.text = append(f.text, text...)
		return
	}
	if err := json.Unmarshal(append(f.take("]"), ']'), &names); err != nil {
		f.fail(errOther)
		return
	}
	f.text = f.text[1:]
	for _, name := range names {
		k := slices.Index(all, name)
		if k < 0 {
			f.fail(fmt.Errorf("%.40q: want one of %v", name, all))
			return
		}
		*v |= 1 << k
	}
}

// namesOf returns the words of a set.
func namesOf[S ~uint8](set S, all []string) (names []string) {
	for k, name := range all {
		if set&(1<<k) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// encode writes a line into a buffer.
func encode(buffer []byte, e Entry) []byte {
	f := fields{text: append(buffer[:0], prefix...)}
	e.pass(&f)
	return seal(append(f.text, '}', '\n'))
}

// seal writes the CRC of a line.
func seal(line []byte) []byte {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(line[len(prefix):len(line)-1], castagnoli))
	hex.Encode(line, sum)
	return line
}

// parse reads a line without its LF. It takes no line but those that encode writes.
func parse(line []byte) (Entry, error) {
	if len(line) <= len(prefix) || !bytes.Equal(seal(append(slices.Clone(line), '\n'))[:len(prefix)], line[:len(prefix)]) {
		return nil, errors.New("its CRC differs")
	}
	text, found := bytes.CutPrefix(line[len(prefix):], []byte(`{"k":"`))
	kind, text, ended := bytes.Cut(text, []byte(`"`))
	if !found || !ended {
		return nil, errors.New("its JSON has no kind")
	}
	e := kinds[string(kind)]
	if e == nil {
		return nil, fmt.Errorf("kind %.40q", kind)
	}
	f := fields{text: text, reads: true}
	e = e.pass(&f)
	if f.err == nil && !bytes.Equal(encode(nil, e), append(slices.Clone(line), '\n')) {
		f.err = errOther
	}
	return e, f.err
}
