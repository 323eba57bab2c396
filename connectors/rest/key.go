package rest

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Key says where a secret is: in the environment or in a file, never in the configuration.
type Key struct {
	Env  string `yaml:"api_key_env"`
	File string `yaml:"api_key_file"`
}

// Validate wants exactly one place.
func (k Key) Validate() error {
	if (k.Env == "") == (k.File == "") {
		return errors.New("api_key_env: exactly one of api_key_env and api_key_file is required; the key itself has no place in this file")
	}
	return nil
}

// Read returns the secret, read anew each time, so that a rotated one is used at once.
func (k Key) Read() (string, error) {
	if k.Env != "" {
		if v := strings.TrimSpace(os.Getenv(k.Env)); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("api_key_env: the variable %s is not set", k.Env)
	}
	b, err := os.ReadFile(k.File)
	if err != nil {
		return "", fmt.Errorf("api_key_file: %w", err)
	}
	if v := strings.TrimSpace(string(b)); v != "" {
		return v, nil
	}
	return "", fmt.Errorf("api_key_file: %s is empty", k.File)
}

// Where names the place, for messages.
func (k Key) Where() string {
	if k.Env != "" {
		return "environment variable " + k.Env
	}
	return "file " + k.File
}
