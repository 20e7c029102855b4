package canon

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pictures returns an image in all formats whose size is read.
func pictures(t *testing.T, width, height int) map[string][]byte {
	m := image.NewPaletted(image.Rect(0, 0, width, height), palette.Plan9)
	var p, j, g bytes.Buffer
	require.NoError(t, png.Encode(&p, m))
	require.NoError(t, jpeg.Encode(&j, m, nil))
	require.NoError(t, gif.Encode(&g, m, nil))
	exif := bytes.Join([][]byte{{0xff, 0xd8, 0xff, 0xe1, 0x60, 0x02}, bytes.Repeat([]byte{0}, 0x6000), {0xff}, j.Bytes()[2:]}, nil)
	return map[string][]byte{"png": p.Bytes(), "jpeg": j.Bytes(), "jpeg behind a preview and a fill byte": exif, "gif": g.Bytes(), "header of a png": p.Bytes()[:24], "header of a gif": g.Bytes()[:10]}
}

// onlyMedia returns the only part of a prompt that is media.
func onlyMedia(t *testing.T, f Format, body string) Part {
	var found []Part
	p := parse(t, f, body)
	for _, s := range p.Segments {
		for _, part := range s.Parts {
			if part.Kind == MediaTokens {
				found = append(found, part)
			}
		}
	}
	require.Len(t, found, 1, body)
	require.Equal(t, found[0].Count, p.MediaTokens)
	return found[0]
}

func TestImagesCountByTheirPixels(t *testing.T) {
	for size, want := range map[[2]int]int{{1, 1}: 1, {25, 30}: 1, {751, 1}: 2, {100, 75}: 10, {1200, 1000}: 1600, {1200, 1001}: 1600, {999, 1201}: 1600} {
		for name, data := range pictures(t, size[0], size[1]) {
			text := base64.StdEncoding.EncodeToString(data)
			for format, body := range map[Format]string{
				Messages:  `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + text + `"}}]}]}`,
				Chat:      `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.ReplaceAll(text, "/", `\/`) + `"}}]}]}`,
				Responses: `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + strings.TrimRight(text, "=") + `"}]}]}`,
			} {
				part := onlyMedia(t, format, body)
				require.Equal(t, want, part.Count, "%s %v %s", name, size, format)
				require.Equal(t, data, part.Bytes(), "%s %v %s", name, size, format)
			}
		}
	}
}

func TestMediaWithoutASize(t *testing.T) {
	whole := pictures(t, 100, 75)["jpeg"]
	frame := bytes.IndexByte(whole, 0xc0)
	for _, data := range [][]byte{nil, whole[:2], whole[:frame], whole[:frame+4], []byte("\xff\xd8\xff\xe0\x00\x01\xff\xc0"), []byte("\xff\xd8\xff\xda\x00\x08"), []byte("BM")} {
		body := `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"` + base64.StdEncoding.EncodeToString(data) + `"}}]}]}`
		require.Equal(t, 1000, onlyMedia(t, Messages, body).Count, "%x", data)
	}
	for block, want := range map[string]string{
		`{"type":"image","source":{"type":"url","url":"https://a"}}`:                            "M1000 https://a",
		`{"type":"image","source":{"type":"file","file_id":"file_1"}}`:                          "M1000 file_1",
		`{"type":"image_url","image_url":{"url":"data:image/png,raw"}}`:                         "M1000 data:image/png,raw",
		`{"type":"image","source":{"type":"base64","data":"!"}}`:                                "M1000 !",
		`{"type":"document","source":{"type":"base64","data":"YWJj"}}`:                          "M1 abc",
		`{"type":"document","source":{"type":"text","data":"YWJj"}}`:                            "M1 YWJj",
		`{"type":"document","source":{"type":"content","content":[{"a": 1}]}}`:                  `M1 [{"a":1}]`,
		`{"type":"document","source":{"type":"content","content":"abc"}}`:                       "M1 abc",
		`{"type":"file","file":{"file_data":"data:application/pdf;base64,YWJj"}}`:               "M1 abc",
		`{"type":"input_file","file_data":"YWJj"}`:                                              "M1 abc",
		`{"type":"input_file","file_url":"https://a"}`:                                          "M1000 https://a",
		`{"type":"input_audio","input_audio":{"data":"YWJj","format":"wav"}}`:                   "M1 abc",
		`{"type":"redacted_thinking","data":"0123456789abcdefg"}`:                               "M4 0123456789abcdefg",
		`{"type":"document","source":{"type":"text","data":"` + strings.Repeat("a", 65) + `"}}`: "M2 " + strings.Repeat("a", 65),
	} {
		part := onlyMedia(t, Chat, `{"messages":[{"role":"user","content":[`+block+`]}]}`)
		require.Equal(t, want, fmt.Sprintf("M%d %s", part.Count, part.Bytes()), block)
	}
	require.Equal(t, 1<<16, onlyMedia(t, Chat, `{"messages":[{"role":"user","content":[{"type":"input_file","file_data":"`+strings.Repeat("AAAA", 1500000)+`"}]}]}`).Count)
}

// The output of a response is what the next prompt says of it, if the client sends the prompt itself.
func TestOutputIsWhatTheNextPromptRepeats(t *testing.T) {
	const output = `[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Think."}],"encrypted_content":"gAAAA"},
		{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Reading."}]},
		{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}"}]`
	p, err := ParseOutput([]byte(output))
	require.NoError(t, err)
	whole := parse(t, Responses, `{"input":[{"role":"user","content":"Go."},`+output[1:]+`}`)
	require.Equal(t, words(whole.Segments[1:]), words(p.Segments))
	require.True(t, p.Segments[0].Follows)
	require.False(t, whole.Segments[1].Follows)
	empty, err := ParseOutput([]byte(`[]`))
	require.NoError(t, err)
	require.Empty(t, empty.Segments)
	_, err = ParseOutput([]byte(`{}`))
	require.EqualError(t, err, "unhashable: the input is neither text nor a list")
}
