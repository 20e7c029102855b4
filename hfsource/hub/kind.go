package hub

// kind is what a repository holds. The hub and the cache name repositories by it.
type kind struct {
	word   string // for messages
	scheme string // before OWNER/NAME in a reference
	api    string // in addresses of the hub's answers
	page   string // in addresses of pages and files
	dir    string // in the cache

	instead string // of a download, for hints
}

var (
	datasets = kind{"dataset", prefix, "/api/datasets/", "/datasets/", "datasets--", ""}
	models   = kind{"model", Scheme, "/api/models/", "/", "models--", "; or the path of its tokenizer.json"}
)

// kind returns what the repository of a reference holds.
func (r Ref) kind() kind {
	if r.Model {
		return models
	}
	return datasets
}
