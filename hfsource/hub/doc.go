// Package hub downloads datasets from the Hugging Face hub: pinned to a commit, verified by digest, resumable, into the
// cache directory of the Python library huggingface_hub. Python tools find what this package downloads, and this package
// uses what they downloaded.
//
//	ref, err := hub.Parse("hf://datasets/semianalysisai/cc-traces-weka-062126@main")
//	...
//	snapshot, err := hub.Fetch(ctx, ref, hub.Options{})
//	...
//	defer snapshot.Close()
//	for _, f := range snapshot.Files {
//		fmt.Println(f.LocalPath, f.Size, f.SHA256)
//	}
//
// Fetch does everything. It reads the environment variables of the Python tools: HF_HOME, HF_HUB_CACHE, HF_TOKEN,
// HF_ENDPOINT, HF_HUB_OFFLINE and the others that doc/spec/hub.md lists. Its errors are of type *Error, or those of the
// context. Snapshot.Export copies the files to another directory.
//
// A file is used only after its content matched the digest that the hub names: sha256 for files in LFS, git's sha1 for
// the others. Paths, digests and addresses from a server are checked before they are used.
//
// The source, in the order of a fetch:
//
//	ref.go        references, short names, suggestions; which names are accepted from a server
//	options.go    options, environment variables
//	fetch.go      the steps: commit, listing, selection, files, record in the cache
//	api.go        what the hub says: commits, listings, where a file is
//	select.go     which files are the data, by the dataset's card or by their names
//	obtain.go     one file: from a cache, or downloaded under a lease
//	download.go   one download: the partial file, the requests that fill it
//	store.go      the cache on disk
//	snapshot.go   the result, copies of it
//	client.go     HTTP: retries, redirects, limits of rates
//	errors.go     errors, and what they must not show
package hub
