package hub

import "fmt"

// maxTokenizerFile limits a file of a tokenizer, in bytes. The largest in use have about 35 MB.
const maxTokenizerFile = 64 << 20

// The files of tokenizers.
const (
	tokenizerFile = "tokenizer.json"
	ranksFile     = "tiktoken.model" // its pattern and special tokens follow from configFile
	configFile    = "tokenizer_config.json"
)

// ParseModel parses the name of a model: OWNER/NAME[@REVISION], with or without hf:// before it. Fetch gets the files of
// its tokenizer alone. Its errors are *Error of ClassInvalid.
func ParseModel(input string) (Ref, error) {
	r, err := parseModel(input)
	if err != nil {
		return Ref{}, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s: %v", input, err), Hint: "OWNER/NAME[@REVISION] of a model of the hub"}
	}
	return r, nil
}

func parseModel(input string) (Ref, error) {
	r, err := parseRepo(input, models)
	if err == nil && r.Path != "" {
		err = fmt.Errorf("a path follows the name")
	}
	return r, err
}

// selectTokenizer returns the files of the tokenizer of a model.
func selectTokenizer(c contents) ([]string, error) {
	switch _, complete := c.complete(); {
	case c.has(tokenizerFile):
		return []string{tokenizerFile}, nil
	case c.has(ranksFile) && c.has(configFile):
		return []string{ranksFile, configFile}, nil
	case !complete:
		return nil, &Error{Class: ClassNotCached, File: tokenizerFile, Text: notCached}
	}
	return nil, &Error{Class: ClassNotFound, File: tokenizerFile, Text: "there is no such file, nor " + ranksFile + " with " + configFile,
		Hint: "the model that it was made from may have one; or the path of a tokenizer.json"}
}

// checkTokenizerSizes refuses files that no tokenizer needs, before they are downloaded.
func (j *job) checkTokenizerSizes(paths []string) error {
	for _, path := range paths {
		e, err := j.entry(path)
		if err != nil {
			return err
		}
		if e.Size > maxTokenizerFile {
			return &Error{Class: ClassInvalid, File: path, Text: fmt.Sprintf("it has %d bytes, more than the %d of any tokenizer", e.Size, maxTokenizerFile)}
		}
	}
	return nil
}
