package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// image is a pre-image with everything in it that could have more than one form.
type image struct {
	Zeta  string            `json:"zeta"`
	Alpha map[string]any    `json:"alpha"`
	Big   int64             `json:"big"`
	Float float64           `json:"float"`
	List  []string          `json:"list"`
	None  *int              `json:"none"`
	Words map[string]string `json:"words"`
}

func exampleImage() image {
	return image{Zeta: "<a> & \u2028 \u4e2d \"q\"", Alpha: map[string]any{"b": 1, "a": []int{}, "c": true}, Big: -1 << 63, Float: 1e21,
		List: []string{}, Words: map[string]string{"B": "1", "a": "2"}}
}

// canonical is exampleImage in the form that is hashed, and key its hash. They must never change: every cache that exists
// is named by such a hash.
const (
	canonical = `{"alpha":{"a":[],"b":1,"c":true},"big":-9223372036854775808,"float":1e+21,"list":[],"none":null,"words":{"B":"1","a":"2"},"zeta":"<a> & \u2028 中 \"q\""}`
	key       = "4105d2306fd87951a0657385f70e631eb2c53f8cb9d6b21f4436296558dcedde"
)

func TestCanonicalForm(t *testing.T) {
	got, err := Canonical(exampleImage())
	require.NoError(t, err)
	assert.Equal(t, canonical, string(got))
	again, err := Canonical(json.RawMessage(got))
	require.NoError(t, err)
	assert.Equal(t, canonical, string(again))
	spaced, err := Canonical(json.RawMessage(strings.ReplaceAll(strings.ReplaceAll(canonical, ",", " ,\n"), "中", `\u4e2d`)))
	require.NoError(t, err)
	assert.Equal(t, canonical, string(spaced))
	_, err = Canonical(make(chan int))
	assert.Error(t, err)
}

func TestKeyIsStable(t *testing.T) {
	m, err := New("structure", exampleImage())
	require.NoError(t, err)
	assert.Equal(t, key, m.Key)
	assert.Equal(t, Sum([]byte(canonical)), m.Key)
	assert.Equal(t, canonical, string(m.PreImage))
	other := exampleImage()
	other.Big++
	o, err := New("structure", other)
	require.NoError(t, err)
	assert.NotEqual(t, m.Key, o.Key)
}

// example is a small manifest, and golden its file, written out.
func example(t require.TestingT) *Manifest {
	m, err := New("dataset", map[string]int{"seed": 42, "format": 1})
	require.NoError(t, err)
	m.Facts = json.RawMessage(`{"b":1,"a":"<x>"}`)
	m.Files = []File{{"b.bin", 1, "00"}, {"a.bin", 1 << 40, "ff"}}
	m.Parts = map[string]Part{"starts": {"k2", "d2"}, "arenas": {"k1", "d1"}}
	return m
}

const golden = `{
  "facts": {
    "a": "<x>",
    "b": 1
  },
  "files": [
    {
      "name": "a.bin",
      "sha256": "ff",
      "size": 1099511627776
    },
    {
      "name": "b.bin",
      "sha256": "00",
      "size": 1
    }
  ],
  "key": "0a5e15596b4e6c5d0ffcd3a4f13d5b2de900c0abec9de9f505309ade64cb0bc5",
  "kind": "dataset",
  "manifest": 1,
  "parts": {
    "arenas": {
      "digest": "d1",
      "key": "k1"
    },
    "starts": {
      "digest": "d2",
      "key": "k2"
    }
  },
  "pre_image": {
    "format": 1,
    "seed": 42
  },
  "digest": "db07e2f94c0bef4c01d7b580cbd2d52cbc7f5853e4f989ae6e154ffc4e443def"
}
`

func TestManifestByteByByte(t *testing.T) {
	m := example(t)
	data, err := m.Encode()
	require.NoError(t, err)
	assert.Equal(t, golden, string(data))
	assert.Contains(t, golden, m.Digest)
	at := strings.Index(golden, ",\n  \"digest\": \"")
	assert.Equal(t, Sum([]byte(golden[:at])), m.Digest, "the digest is that of all bytes before its line")
}

func TestEncodedManifestDecodesToItself(t *testing.T) {
	name := rapid.StringMatching(`[a-z][a-z0-9.]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		m, err := New(rapid.String().Draw(t, "kind"), rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "image"))
		require.NoError(t, err)
		m.Facts, err = json.Marshal(rapid.MapOf(rapid.String(), rapid.Float64()).Draw(t, "facts"))
		require.NoError(t, err)
		for _, n := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "files") {
			m.Files = append(m.Files, File{n, rapid.Int64Min(0).Draw(t, "size"), rapid.String().Draw(t, "sum")})
		}
		for _, n := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(t, "parts") {
			if m.Parts == nil {
				m.Parts = map[string]Part{}
			}
			m.Parts[n] = Part{Key: "k" + n, Digest: rapid.String().Draw(t, "digest")}
		}
		data, err := m.Encode()
		require.NoError(t, err)
		got, err := Decode(data)
		require.NoError(t, err)
		require.Equal(t, m.Digest, got.Digest)
		require.Equal(t, m.Key, got.Key)
		require.Equal(t, m.Files, got.Files)
		require.Equal(t, m.Size(), got.Size())
		again, err := got.Encode()
		require.NoError(t, err)
		require.Equal(t, string(data), string(again))
	})
}

func TestEveryChangeIsRefused(t *testing.T) {
	good, err := example(t).Encode()
	require.NoError(t, err)
	_, err = Decode(good)
	require.NoError(t, err)
	for k := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[k] ^= 1 << bit
			_, err := Decode(bad)
			require.ErrorIs(t, err, ErrDamaged, "byte %d", k)
		}
		_, err := Decode(good[:k])
		require.ErrorIs(t, err, ErrDamaged, "cut at %d", k)
		_, err = Decode(good[k+1:])
		require.ErrorIs(t, err, ErrDamaged)
		_, err = Decode(append(bytes.Clone(good[:k]), good[k+1:]...))
		require.ErrorIs(t, err, ErrDamaged)
	}
	for _, more := range []string{" ", "\n", "x", "\x00", string(good)} {
		_, err := Decode(append(bytes.Clone(good), more...))
		require.ErrorIs(t, err, ErrDamaged)
	}
}

// seal gives changed text a valid digest: only the other checks can find the damage.
func seal(text string) []byte {
	at := strings.LastIndex(text, digestLine)
	return []byte(text[:at] + digestLine + Sum([]byte(text[:at])) + "\"\n}\n")
}

func TestValidDigestOverBadContentIsRefused(t *testing.T) {
	good, err := example(t).Encode()
	require.NoError(t, err)
	for _, c := range [][2]string{
		{`"seed": 42`, `"seed": 43`},      // the key is no more that of the pre-image
		{`"a.bin"`, `"../a.bin"`},         // leads out of the directory
		{`"a.bin"`, `"a/a.bin"`},          //
		{`"a.bin"`, `""`},                 //
		{`"a.bin"`, `".hidden"`},          //
		{`"b.bin"`, `"b\u0000bin"`},       // no file can have that name
		{`"b.bin"`, `"a.bin"`},            // twice
		{`"b.bin"`, `"manifest.json"`},    // holds the digests of the others
		{`"b.bin"`, `"provenance.json"`},  // has none
		{`"key": "k1"`, `"key": "../k1"`}, // leads out of the root
		{`"key": "k1"`, `"key": ""`},      //
		{`"arenas": {`, `"../arenas": {`}, //
		{`"size": 1`, `"size": -1`},
		{`"sha256": "00",`, `"more": 1, "sha256": "00",`}, // nothing but what Encode wrote
		{`"kind": "dataset",`, ""},
		{"{\n", "[\n"},
		{`"facts"`, `"fcats"`},
		{"\n  \"manifest\": 1,", "\n  \"manifest\": 1 ,"},
	} {
		old, now := c[0], c[1]
		require.Contains(t, string(good), old)
		_, err := Decode(seal(strings.Replace(string(good), old, now, 1)))
		assert.ErrorIs(t, err, ErrDamaged, now)
	}
}

// Another version is not damage: the error says what to do. It may have other members than this one.
func TestAnotherVersion(t *testing.T) {
	good, err := example(t).Encode()
	require.NoError(t, err)
	for _, now := range []string{`"manifest": 3`, `"files": "elsewhere", "manifest": 3`, `"manifest": 0`} {
		_, err = Decode(seal(strings.Replace(string(good), `"manifest": 1`, now, 1)))
		assert.ErrorContains(t, err, now[len(now)-1:]+": this agentx reads versions 1 to 2: convert again, or use the agentx that made it")
		assert.NotErrorIs(t, err, ErrDamaged)
	}
	_, err = Decode(seal(strings.Replace(string(good), `"manifest": 1`, `"manifest": 1, "files": 5`, 1)))
	assert.ErrorIs(t, err, ErrDamaged, "of this version, and not as it should be")
	_, err = Decode(seal("[" + digestLine))
	assert.ErrorIs(t, err, ErrDamaged, "of none")
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	_, err := Read(dir)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	m := example(t)
	data, err := m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	got, err := Read(dir)
	require.NoError(t, err)
	assert.Equal(t, m.Digest, got.Digest)
	f, ok := got.File("b.bin")
	assert.True(t, ok)
	assert.Equal(t, File{"b.bin", 1, "00"}, f)
	_, ok = got.File("c.bin")
	assert.False(t, ok)

	require.NoError(t, os.Truncate(path, 100))
	_, err = Read(dir)
	assert.ErrorIs(t, err, ErrDamaged)
	assert.ErrorContains(t, err, path)
	require.NoError(t, os.Truncate(path, maxSize+1)) // a hole
	_, err = Read(dir)
	assert.ErrorIs(t, err, ErrDamaged)
	assert.ErrorContains(t, err, path+": damaged: 67108865 bytes", "before it is read")
}

// Anything but a regular file is damage, and Open never waits for it.
func TestOpenTakesRegularFilesOnly(t *testing.T) {
	posix(t, "it has no pipes among files, and links for few")
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("content"), 0o666))
	path := filepath.Join(dir, FileName)
	things := map[string]func() error{
		"directory":         func() error { return os.Mkdir(path, 0o777) },
		"pipe":              func() error { return mkfifo(t, path) },
		"link to itself":    func() error { return os.Symlink(path, path) },
		"link to a device":  func() error { return os.Symlink("/dev/null", path) },
		"link to nothing":   func() error { return os.Symlink("nothing", path) },
		"link to a regular": func() error { return os.Symlink("target", path) },
		"regular":           func() error { return os.Link(target, path) },
		"socket": func() error {
			t.Chdir(dir) // the name of a socket must be short
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: FileName})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
	}
	for what, put := range things {
		require.NoError(t, put(), what)
		f, size, err := Open(path)
		_, readErr := Read(dir)
		require.NoError(t, os.Remove(path))
		switch what {
		case "regular", "link to a regular":
			require.NoError(t, err)
			assert.Equal(t, int64(7), size)
			assert.IsType(t, (*os.File)(nil), f)
			require.NoError(t, f.Close())
			continue
		case "link to nothing":
			assert.ErrorIs(t, err, fs.ErrNotExist)
		default:
			assert.ErrorIs(t, err, ErrDamaged, what)
			assert.ErrorContains(t, err, path+": damaged: not a regular file", what)
		}
		assert.Equal(t, err.Error(), readErr.Error(), what)
	}
}

// handle is an open file that fails when it is read, or ends early.
type handle struct {
	fs.File
	err error
}

func (h handle) Read([]byte) (int, error) { return 0, h.err }

func TestFaultsWhileReading(t *testing.T) {
	dir := t.TempDir()
	data, err := example(t).Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), data, 0o666))
	read := func(fault error) error {
		_, err := ReadThrough(func(path string) (fs.File, int64, error) {
			f, size, err := Open(path)
			return handle{f, fault}, size, err
		}, dir)
		return err
	}
	assert.ErrorIs(t, read(syscall.ESTALE), syscall.ESTALE)
	assert.NotErrorIs(t, read(syscall.EIO), ErrDamaged, "nothing is known of it")
	assert.ErrorIs(t, read(io.EOF), ErrDamaged, "cut after it was opened")
}

// slowly is Decode the plain way: it reads any JSON, encodes it and compares.
func slowly(data []byte) (*Manifest, error) {
	at := bytes.LastIndex(data, []byte(digestLine))
	var m Manifest
	if err := json.Unmarshal(append(bytes.Clone(data[:at]), "\n}"...), &m); err != nil {
		return nil, err
	}
	var err error
	if m.PreImage, err = Canonical(m.PreImage); err != nil {
		return nil, err
	}
	if m.Manifest != Version && m.Manifest != PartsInFacts || Sum(m.PreImage) != m.Key || m.checkNames() != nil {
		return nil, ErrDamaged
	}
	if again, err := m.Encode(); err != nil || !bytes.Equal(again, data) {
		return nil, ErrDamaged
	}
	return &m, nil
}

// checkSlowly compares Decode with slowly.
func checkSlowly(t require.TestingT, data []byte) *Manifest {
	want, wantErr := slowly(data)
	got, err := Decode(data)
	if wantErr != nil {
		require.Error(t, err, "%q", data)
		return nil
	}
	require.NoError(t, err, "%q", data)
	require.Equal(t, want, got)
	return got
}

// rich is the body of a manifest with every kind of value in its facts.
func rich(t require.TestingT) []byte {
	m := example(t)
	m.Facts = json.RawMessage(`{"":[],"a":[[1],[{}]],"b":{"x":{"z":-0.5e-7,"\u4e2d":null}},"n":"a\"\\\u0001\n\u2028\u007f\u00e9","t":[true,false,null,0,-1,12345678901234567890]}`)
	data, err := m.Encode()
	require.NoError(t, err)
	require.NotNil(t, checkSlowly(t, data))
	return data[:bytes.LastIndex(data, []byte(digestLine))]
}

// Valid digests over text that is nearly a manifest: Decode accepts only what encodes to itself.
func TestDecodeIsStrict(t *testing.T) {
	body := rich(t)
	accepted := 0
	check := func(body []byte) {
		if checkSlowly(t, append(bytes.Clone(body), digestLine+Sum(body)+"\"\n}\n"...)) != nil {
			accepted++
		}
	}
	splice := func(from, to int, middle string) []byte {
		return append(append(bytes.Clone(body[:from]), middle...), body[to:]...)
	}
	for k := range body {
		check(body[:k])
		for i, piece := range []string{"", " ", "\n", "0", "1", "9", "-", ".", "e", "E", "+", `"`, `\`, ",", ":", "{", "}", "[", "]", "{}", "[]", "a", "n", "null", "\x00", "\x1f", "\x7f", "\x80", "\xff", "<", "\u00e9", "\u2028", "\ufffd", `\u0041`, `\u00e9`, `\/`, `\n`, `\b`, `\u2028`} {
			check(splice(k, k+(k+i)%2, piece)) // before a byte, or instead of it
		}
		for n := 1; n < 12 && k+n <= len(body); n++ {
			check(splice(k, k+n, ""))
		}
	}
	assert.Greater(t, accepted, 200, "facts may say other things")

	for _, files := range [][]File{nil, {}} {
		m := example(t)
		m.Files, m.Parts = files, nil
		data, err := m.Encode()
		require.NoError(t, err)
		require.NotNil(t, checkSlowly(t, data))
	}
	require.Contains(t, string(body), `"size": 1`+"\n")
	check(bytes.Replace(body, []byte(`"size": 1`+"\n"), []byte(`"size": -0`+"\n"), 1))
	m := example(t)
	m.Parts = nil
	data, err := m.Encode()
	require.NoError(t, err)
	empty := strings.Replace(string(data), ",\n  \"pre_image\"", ",\n  \"parts\": {},\n  \"pre_image\"", 1)
	require.Nil(t, checkSlowly(t, seal(empty)))
}

// Any text with a valid digest is refused, or decodes to a manifest that names no file outside of its directory.
func FuzzDecode(f *testing.F) {
	m, err := New("starts", map[string]any{"seed": 42})
	require.NoError(f, err)
	m.Facts = json.RawMessage(`{"tokens":5}`)
	m.Files = []File{{Name: "starts.bin", Size: 70, SHA256: "00"}}
	good, err := m.Encode()
	require.NoError(f, err)
	body, _, _ := bytes.Cut(good, []byte(digestLine))
	f.Add(body)
	f.Add(bytes.Replace(body, []byte("starts.bin"), []byte("../starts.bin"), 1))
	f.Add([]byte(`{"manifest":1`))
	f.Add(rich(f))
	f.Fuzz(func(t *testing.T, body []byte) {
		data := append(bytes.Clone(body), digestLine+Sum(body)+"\"\n}\n"...)
		got := checkSlowly(t, data)
		if got == nil {
			return
		}
		require.Equal(t, Sum(got.PreImage), got.Key)
		for _, f := range got.Files {
			require.Equal(t, filepath.Base(f.Name), f.Name)
			require.GreaterOrEqual(t, f.Size, int64(0))
		}
	})
}

func TestManifestsTooLargeToReadAreNotWritten(t *testing.T) {
	m, err := New("kind", map[string]string{"a": strings.Repeat("x", maxSize)})
	require.NoError(t, err)
	_, err = m.Encode()
	assert.ErrorContains(t, err, "the limit is 67108864")
}

func TestClip(t *testing.T) {
	assert.Equal(t, "short", Clip("short"))
	long := "begin" + strings.Repeat("\u00e9", 1<<20) + "end"
	got := Clip(long)
	assert.Less(t, len(got), 500)
	assert.True(t, strings.HasPrefix(got, "begin") && strings.HasSuffix(got, "end") && utf8.ValidString(got), got)
	assert.Contains(t, got, fmt.Sprintf("%d bytes", len(long)-400))
}
