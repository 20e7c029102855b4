package fakehub

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fail answers with an error as the hub does: a status, X-Error-Code and X-Error-Message.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": message})
}

// serveHub is the handler of the hub: /api/datasets/OWNER/NAME/VERB/REVISION/... and
// /datasets/OWNER/NAME/resolve/REVISION/PATH; for models /api/models/... and no /datasets.
func (h *Hub) serveHub(w http.ResponseWriter, r *http.Request) {
	if h.Token != "" && r.Header.Get("Authorization") != "Bearer "+h.Token {
		fail(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		return
	}
	path, api := strings.CutPrefix(r.URL.EscapedPath(), "/api")
	path, isDataset := strings.CutPrefix(path, "/datasets/")
	if api && !isDataset {
		path = strings.TrimPrefix(path, "/models")
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if len(parts) < 2 {
		fail(w, http.StatusNotFound, "", "Not found")
		return
	}
	name, verb, revision, rest := parts[0]+"/"+parts[1], "", "main", ""
	if !isDataset {
		name = "models/" + name
	}
	if len(parts) > 2 {
		verb = parts[2]
	}
	if len(parts) > 3 {
		revision, _ = url.PathUnescape(parts[3])
		rest, _ = url.PathUnescape(strings.Join(parts[4:], "/"))
	}
	commit, files, code := h.lookup(name, revision)
	switch code {
	case "RepoNotFound":
		fail(w, http.StatusNotFound, code, "Repository not found")
		return
	case "RevisionNotFound":
		fail(w, http.StatusNotFound, code, "Invalid rev id: "+revision)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	switch {
	case api && (verb == "" || verb == "revision"):
		h.serveInfo(w, name, commit, files)
	case api && verb == "tree":
		h.serveTree(w, r, files)
	case api && verb == "paths-info":
		h.servePaths(w, r, files)
	case api && verb == "xet-read-token":
		h.serveXetToken(w)
	case api && verb == "auth-check":
		w.WriteHeader(http.StatusOK)
	case !api && verb == "resolve":
		h.nameXet(w, name, commit, files[rest])
		h.serveResolve(w, r, rest, files)
	default:
		fail(w, http.StatusNotFound, "", "Not found")
	}
}

// lookup returns the commit and the files of a revision, or the code of the hub's error.
func (h *Hub) lookup(name, revision string) (commit string, files map[string]File, code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.repos[name]
	if r == nil {
		return "", nil, "RepoNotFound"
	}
	commit = revision
	if c, ok := r.branches[revision]; ok {
		commit = c
	}
	files, ok := r.commits[commit]
	if !ok {
		return "", nil, "RevisionNotFound"
	}
	return commit, files, ""
}

// reply answers with a value as JSON.
func reply(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// serveInfo answers what a revision is: the commit and its files.
func (h *Hub) serveInfo(w http.ResponseWriter, name, commit string, files map[string]File) {
	var siblings []map[string]any
	for _, path := range slices.Sorted(maps.Keys(files)) {
		siblings = append(siblings, map[string]any{"rfilename": path})
	}
	reply(w, map[string]any{"_id": "1", "id": name, "sha": commit, "private": false, "gated": false, "disabled": false,
		"lastModified": "2026-06-21T00:00:00.000Z", "tags": []string{}, "downloads": 0, "likes": 0, "siblings": siblings})
}

// item is the JSON of a file in a listing.
func item(path string, f File) map[string]any {
	m := map[string]any{"type": "file", "path": path, "size": len(f.Data), "oid": GitDigest(f.Data)}
	if f.LFS {
		pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", Digest(f.Data), len(f.Data))
		m["oid"] = GitDigest([]byte(pointer))
		m["lfs"] = map[string]any{"oid": Digest(f.Data), "size": len(f.Data), "pointerSize": len(pointer)}
	}
	if f.Xet {
		m["xetHash"] = f.XetHash()
	}
	return m
}

// serveTree answers with a page of the listing of a commit.
func (h *Hub) serveTree(w http.ResponseWriter, r *http.Request, files map[string]File) {
	list := []map[string]any{}
	folders := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if dir, _, ok := strings.Cut(path, "/"); ok && dir != "" && !folders[dir] {
			folders[dir] = true
			list = append(list, map[string]any{"type": "directory", "path": dir, "size": 0, "oid": GitDigest([]byte(dir))})
		}
		list = append(list, item(path, files[path]))
	}
	start, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	end := min(start+h.Page, len(list))
	if end < len(list) {
		q := r.URL.Query()
		q.Set("cursor", strconv.Itoa(end))
		q.Set("limit", strconv.Itoa(h.Page))
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?%s>; rel="next"`, h.HubURL, r.URL.EscapedPath(), q.Encode()))
	}
	reply(w, list[start:end])
}

// servePaths answers with the entries of the paths that a request names.
func (h *Hub) servePaths(w http.ResponseWriter, r *http.Request, files map[string]File) {
	var ask struct {
		Paths []string `json:"paths"`
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		_ = json.NewDecoder(r.Body).Decode(&ask)
	} else if r.ParseForm() == nil { // as the Python client asks
		ask.Paths = r.PostForm["paths"]
	}
	list := []map[string]any{}
	for _, path := range ask.Paths {
		if f, ok := files[path]; ok {
			list = append(list, item(path, f))
		}
	}
	reply(w, list)
}

// serveResolve answers for a file: with its content, or with a redirect to the CDN.
func (h *Hub) serveResolve(w http.ResponseWriter, r *http.Request, path string, files map[string]File) {
	f, ok := files[path]
	if !ok {
		fail(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	w.Header().Set("Accept-Ranges", "bytes")
	if !f.LFS {
		serveBytes(w, r, `"`+f.ETag()+`"`, f.Data)
		return
	}
	h.mu.Lock()
	signature := fmt.Sprintf("secret-%d", len(h.signed)+1)
	h.signed[signature] = time.Now()
	h.mu.Unlock()
	to := h.cdnURL + "/repos/" + f.ETag() + "?X-Amz-Signature=" + signature + "&Expires=3600"
	w.Header().Set("X-Linked-Etag", `"`+f.ETag()+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(f.Data)))
	w.Header().Set("ETag", `"`+GitDigest(f.Data)+`"`)
	w.Header().Set("Location", to)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "Found. Redirecting to " + to
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusFound)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(text))
	}
}

// serveCDN is the handler of the CDN: it serves files by digest, to valid signatures.
func (h *Hub) serveCDN(w http.ResponseWriter, r *http.Request) {
	if h.serveXet(w, r) {
		return
	}
	signature := r.URL.Query().Get("X-Amz-Signature")
	h.mu.Lock()
	_, given := h.signed[signature]
	expired := h.expired[signature]
	h.mu.Unlock()
	if !given || expired {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
		return
	}
	digest := strings.TrimPrefix(r.URL.Path, "/repos/")
	if f, ok := h.find(func(f File) bool { return f.LFS && f.ETag() == digest }); ok {
		serveBytes(w, r, `"cdn-`+digest[:16]+`"`, f.Data)
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// find returns a file of any repository for which is holds.
func (h *Hub) find(is func(File) bool) (File, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.repos {
		for _, files := range r.commits {
			for _, f := range files {
				if is(f) {
					return f, true
				}
			}
		}
	}
	return File{}, false
}

// serveBytes serves a content, or the range of it that is asked for.
func serveBytes(w http.ResponseWriter, r *http.Request, etag string, data []byte) {
	w.Header().Set("ETag", etag)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

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
