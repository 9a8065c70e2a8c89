package main

import (
	"context"
	"encoding/json"

	"github.com/ollama/ollama/api"
)

func ollamaSteps() []step {
	client, err := api.ClientFromEnvironment()
	if err != nil {
		fail(err.Error())
	}
	ctx := context.Background()

	user := func(text string) api.Message { return api.Message{Role: "user", Content: text} }
	request := func(messages ...api.Message) *api.ChatRequest {
		options := map[string]any{"temperature": 0, "num_predict": maxTokens}
		return &api.ChatRequest{Model: model, Messages: messages, Options: options}
	}
	withTool := func(messages ...api.Message) *api.ChatRequest {
		params := request(messages...)
		properties := api.NewToolPropertiesMap()
		properties.Set("city", api.ToolProperty{Type: api.PropertyType{"string"}})
		params.Tools = api.Tools{{Type: "function", Function: api.ToolFunction{
			Name:        "get_weather",
			Description: "The weather in a city.",
			Parameters:  api.ToolFunctionParameters{Type: "object", Required: []string{"city"}, Properties: properties},
		}}}
		return params
	}
	streamed := func(params *api.ChatRequest) (outcome, error) {
		text, thinking, chunks, calls := "", "", 0, [][]any{}
		var last api.ChatResponse
		err := client.Chat(ctx, params, func(response api.ChatResponse) error {
			last = response
			text += response.Message.Content
			thinking += response.Message.Thinking
			if response.Message.Content != "" {
				chunks++
			}
			for _, call := range response.Message.ToolCalls {
				calls = append(calls, []any{call.Function.Name, call.Function.Arguments})
			}
			return nil
		})
		return outcome{
			"text":     text,
			"thinking": thinking,
			"calls":    calls,
			"finish":   last.DoneReason,
			"tokens":   last.EvalCount,
			"chunks":   chunks,
		}, err
	}
	ask := func(params *api.ChatRequest) (outcome, error) {
		params.Stream = new(bool)
		return streamed(params)
	}

	return []step{
		{"plain", func() (outcome, error) {
			return ask(request(api.Message{Role: "system", Content: "Be brief."}, user("Hello")))
		}},
		{"stream", func() (outcome, error) { return streamed(request(user("Stream #unicode"))) }},
		{"tool", func() (outcome, error) { return ask(withTool(user("#tool in Paris?"))) }},
		{"tool_stream", func() (outcome, error) { return streamed(withTool(user("#tool in Paris, streamed?"))) }},
		{"tool_result", func() (outcome, error) {
			given := api.NewToolCallFunctionArguments()
			given.Set("city", "Paris")
			call := api.ToolCall{Function: api.ToolCallFunction{Name: "get_weather", Arguments: given}}
			return ask(withTool(
				user("Weather in Paris?"),
				api.Message{Role: "assistant", ToolCalls: []api.ToolCall{call}},
				api.Message{Role: "tool", ToolName: "get_weather", Content: "18 C, sunny"},
			))
		}},
		{"structured", func() (outcome, error) {
			params := request(user("#json"))
			params.Think = &api.ThinkValue{Value: false}
			schema, err := json.Marshal(answer)
			if err != nil {
				return nil, err
			}
			params.Format = schema
			return parsed(ask(params))
		}},
		{"turns", func() (outcome, error) {
			first, err := ask(request(user("Good morning")))
			if err != nil {
				return nil, err
			}
			assistant := api.Message{Role: "assistant", Content: first["text"].(string)}
			return ask(request(user("Good morning"), assistant, user("And now?")))
		}},
		{"concurrent", func() (outcome, error) {
			return concurrently(func(question string) (outcome, error) { return ask(request(user(question))) })
		}},
		{"models", func() (outcome, error) {
			list, err := client.List(ctx)
			if err != nil {
				return nil, err
			}
			models := []string{}
			for _, model := range list.Models {
				models = append(models, model.Model)
			}
			return outcome{"models": models}, nil
		}},
		{"version", func() (outcome, error) {
			version, err := client.Version(ctx)
			return outcome{"version": version}, err
		}},
		{"heartbeat", func() (outcome, error) { return outcome{}, client.Heartbeat(ctx) }},
	}
}
