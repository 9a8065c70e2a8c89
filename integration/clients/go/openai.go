package main

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

var parameters = map[string]any{"type": "object", "properties": city, "required": []string{"city"}}

func chatSteps() []step {
	client := openai.NewClient()
	ctx := context.Background()

	request := func(messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{
			Model:               model,
			MaxCompletionTokens: openai.Int(maxTokens),
			Temperature:         openai.Float(0),
			Messages:            messages,
		}
	}
	withTool := func(messages ...openai.ChatCompletionMessageParamUnion) openai.ChatCompletionNewParams {
		params := request(messages...)
		params.Tools = []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
				Name:        "get_weather",
				Description: openai.String("The weather in a city."),
				Parameters:  parameters,
			}),
		}
		return params
	}
	ask := func(params openai.ChatCompletionNewParams) (outcome, error) {
		completion, err := client.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return chatTold(*completion), nil
	}
	streamed := func(params openai.ChatCompletionNewParams) (outcome, error) {
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := client.Chat.Completions.NewStreaming(ctx, params)
		whole, chunks := openai.ChatCompletionAccumulator{}, 0
		for stream.Next() {
			chunk := stream.Current()
			whole.AddChunk(chunk)
			if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				chunks++
			}
		}
		if err := stream.Err(); err != nil {
			return nil, err
		}
		told := chatTold(whole.ChatCompletion)
		told["chunks"] = chunks
		return told, nil
	}

	return []step{
		{"plain", func() (outcome, error) {
			return ask(request(openai.SystemMessage("Be brief."), openai.UserMessage("Hello")))
		}},
		{"stream", func() (outcome, error) { return streamed(request(openai.UserMessage("Stream #unicode"))) }},
		{"tool", func() (outcome, error) { return ask(withTool(openai.UserMessage("#tool in Paris?"))) }},
		{"tool_stream", func() (outcome, error) {
			return streamed(withTool(openai.UserMessage("#tool in Paris, streamed?")))
		}},
		{"tool_result", func() (outcome, error) {
			call := openai.ChatCompletionMessageFunctionToolCallParam{
				ID: "call_1",
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name:      "get_weather",
					Arguments: `{"city": "Paris"}`,
				},
			}
			assistant := openai.ChatCompletionAssistantMessageParam{
				ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &call}},
			}
			return ask(withTool(
				openai.UserMessage("Weather in Paris?"),
				openai.ChatCompletionMessageParamUnion{OfAssistant: &assistant},
				openai.ToolMessage("18 C, sunny", "call_1"),
			))
		}},
		{"structured", func() (outcome, error) {
			params := request(openai.UserMessage("#json"))
			params.ReasoningEffort = openai.ReasoningEffortNone
			params.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
				JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{
					Name:   "answer",
					Schema: answer,
					Strict: openai.Bool(true),
				},
			}
			return parsed(ask(params))
		}},
		{"turns", func() (outcome, error) {
			question := openai.UserMessage("Good morning")
			first, err := client.Chat.Completions.New(ctx, request(question))
			if err != nil {
				return nil, err
			}
			return ask(request(question, first.Choices[0].Message.ToParam(), openai.UserMessage("And now?")))
		}},
		{"concurrent", func() (outcome, error) {
			return concurrently(func(question string) (outcome, error) {
				return ask(request(openai.UserMessage(question)))
			})
		}},
		{"models", func() (outcome, error) {
			models := []string{}
			pages := client.Models.ListAutoPaging(ctx)
			for pages.Next() {
				models = append(models, pages.Current().ID)
			}
			return outcome{"models": models}, pages.Err()
		}},
	}
}

func chatTold(completion openai.ChatCompletion) outcome {
	choice, calls := completion.Choices[0], [][]any{}
	for _, call := range choice.Message.ToolCalls {
		calls = append(calls, []any{call.Function.Name, call.Function.Arguments})
	}
	return outcome{
		"text":   choice.Message.Content,
		"calls":  calls,
		"finish": choice.FinishReason,
		"tokens": completion.Usage.CompletionTokens,
	}
}

func responsesSteps() []step {
	client := openai.NewClient()
	ctx := context.Background()

	request := func(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
		return responses.ResponseNewParams{
			Model:           model,
			MaxOutputTokens: openai.Int(maxTokens),
			Temperature:     openai.Float(0),
			Input:           responses.ResponseNewParamsInputUnion{OfInputItemList: items},
		}
	}
	user := func(text string) responses.ResponseInputItemUnionParam {
		return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
	}
	withTool := func(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParams {
		params := request(items...)
		params.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name:        "get_weather",
			Description: openai.String("The weather in a city."),
			Parameters:  parameters,
			Strict:      openai.Bool(false),
		}}}
		return params
	}
	ask := func(params responses.ResponseNewParams) (outcome, error) {
		response, err := client.Responses.New(ctx, params)
		if err != nil {
			return nil, err
		}
		return responseTold(*response), nil
	}
	streamed := func(params responses.ResponseNewParams) (outcome, error) {
		stream := client.Responses.NewStreaming(ctx, params)
		chunks := 0
		var last responses.ResponseStreamEventUnion
		for stream.Next() {
			last = stream.Current()
			if last.Type == "response.output_text.delta" {
				chunks++
			}
		}
		told := responseTold(last.Response)
		told["chunks"] = chunks
		return told, stream.Err()
	}

	return []step{
		{"plain", func() (outcome, error) {
			params := request()
			params.Instructions = openai.String("Be brief.")
			params.Input = responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")}
			return ask(params)
		}},
		{"stream", func() (outcome, error) { return streamed(request(user("Stream this"))) }},
		{"tool", func() (outcome, error) { return ask(withTool(user("#tool in Paris?"))) }},
		{"tool_stream", func() (outcome, error) { return streamed(withTool(user("#tool in Paris, streamed?"))) }},
		{"tool_result", func() (outcome, error) {
			result := responses.ResponseInputItemParamOfFunctionCallOutput("18 C, sunny")
			result.OfFunctionCallOutput.CallID = openai.String("call_1")
			return ask(withTool(
				user("Weather in Paris?"),
				responses.ResponseInputItemParamOfFunctionCall(`{"city": "Paris"}`, "call_1", "get_weather"),
				result,
			))
		}},
		{"structured", func() (outcome, error) {
			params := request(user("#json"))
			params.Reasoning = shared.ReasoningParam{Effort: openai.ReasoningEffortNone}
			params.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
				Name:   "answer",
				Schema: answer,
				Strict: openai.Bool(true),
			}
			return parsed(ask(params))
		}},
		{"turns", func() (outcome, error) {
			first, err := client.Responses.New(ctx, request(user("Good morning")))
			if err != nil {
				return nil, err
			}
			said := first.Output[0].AsMessage().ToParam()
			assistant := responses.ResponseInputItemUnionParam{OfOutputMessage: &said}
			return ask(request(user("Good morning"), assistant, user("And now?")))
		}},
		{"concurrent", func() (outcome, error) {
			return concurrently(func(question string) (outcome, error) { return ask(request(user(question))) })
		}},
	}
}

func responseTold(response responses.Response) outcome {
	calls := [][]any{}
	for _, item := range response.Output {
		if item.Type == "function_call" {
			call := item.AsFunctionCall()
			calls = append(calls, []any{call.Name, call.Arguments})
		}
	}
	return outcome{
		"text":   response.OutputText(),
		"calls":  calls,
		"finish": response.Status,
		"tokens": response.Usage.OutputTokens,
	}
}
