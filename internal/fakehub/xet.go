package fakehub

import (
	"encoding/binary"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// Xet is the storage from which the Python client downloads files, in chunks, if the hub names their Xet hash. This fake
// keeps each file as one xorb of uncompressed chunks, on the listener of the CDN.

// xetChunk is the size of all chunks but the last, in bytes.
const xetChunk = 64 << 10

// XetHash returns an invented Xet hash of the content. The client does not check it.
func (f File) XetHash() string { return Digest(append([]byte("xet "), f.Data...)) }

// nameXet adds the headers with the Xet hash of a file, and with the address for a token.
func (h *Hub) nameXet(w http.ResponseWriter, name, commit string, f File) {
	if f.Xet {
		w.Header().Set("X-Xet-Hash", f.XetHash())
		w.Header().Set("X-Xet-Refresh-Route", h.HubURL+"/api/datasets/"+name+"/xet-read-token/"+commit)
	}
}

// serveXetToken serves the address of the storage, and a token for it.
func (h *Hub) serveXetToken(w http.ResponseWriter) {
	w.Header().Set("X-Xet-Cas-Url", h.cdnURL)
	w.Header().Set("X-Xet-Access-Token", "xet-token")
	w.Header().Set("X-Xet-Token-Expiration", "4102444800")
	reply(w, map[string]any{"casUrl": h.cdnURL, "accessToken": "xet-token", "exp": 4102444800})
}

// serveXet is the handler of the storage: the chunks of a file, and their bytes. It returns false for other requests.
func (h *Hub) serveXet(w http.ResponseWriter, r *http.Request) bool {
	dir, hash := path.Split(r.URL.Path)
	f, ok := h.find(func(f File) bool { return f.Xet && f.XetHash() == hash })
	switch {
	case dir == "/v1/reconstructions/" && ok:
		h.reconstruct(w, r, hash, len(f.Data))
	case dir == "/xorbs/" && ok:
		serveBytes(w, r, `"`+hash+`"`, xorb(f.Data))
	case strings.HasSuffix(dir, "/reconstructions/"): // a version that this fake does not have
		w.WriteHeader(http.StatusNotFound)
	default:
		return false
	}
	return true
}

// reconstruct serves the list of the chunks that hold the requested bytes of a file.
func (h *Hub) reconstruct(w http.ResponseWriter, r *http.Request, hash string, size int) {
	first, last := 0, size-1
	if from, to, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"); ok {
		first, _ = strconv.Atoi(from)
		if n, err := strconv.Atoi(to); err == nil {
			last = min(last, n)
		}
	}
	if first >= size {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	begin, end := first/xetChunk, last/xetChunk+1
	chunks := map[string]int{"start": begin, "end": end}
	reply(w, map[string]any{
		"offset_into_first_range": first % xetChunk,
		"terms":                   []any{map[string]any{"hash": hash, "unpacked_length": min(end*xetChunk, size) - begin*xetChunk, "range": chunks}},
		"fetch_info": map[string]any{hash: []any{map[string]any{
			"range": chunks, "url": h.cdnURL + "/xorbs/" + hash,
			"url_range": map[string]int{"start": begin * (xetChunk + 8), "end": min(end*(xetChunk+8), size+8*end) - 1},
		}}},
	})
}

// xorb returns a content in chunks. Each has a header of 8 bytes, version, stored length, compression and length, and the
// bytes.
func xorb(data []byte) (b []byte) {
	for len(data) > 0 {
		n := min(xetChunk, len(data))
		b = binary.LittleEndian.AppendUint32(b, uint32(n)<<8)
		b = binary.LittleEndian.AppendUint32(b, uint32(n)<<8)
		b = append(b, data[:n]...)
		data = data[n:]
	}
	return b
}
