import com.anthropic.helpers.BetaMemoryToolHandler;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;

/** The memory tool for agents in Java: each call of the model goes to a retentive server. */
public final class RetentiveMemory implements BetaMemoryToolHandler {
    /** The reply, for the model. */
    public record Result(String content, boolean isError) {}

    private static final ObjectMapper JSON = new ObjectMapper(); // the SDK brings Jackson along
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final HttpRequest.Builder request;

    /** A memory store on a server. The timeout limits each attempt. */
    public RetentiveMemory(String url, String key, String store, Duration timeout) {
        String path = "/v1/memory_stores/" + URLEncoder.encode(store, StandardCharsets.UTF_8) + "/tool";
        request = HttpRequest.newBuilder(URI.create(url + path)).timeout(timeout)
            .header("x-api-key", key).header("content-type", "application/json");
    }

    /** Runs a tool_use block: call(block.id(), block._input().convert(Map.class)). A call sent again is carried out once. */
    public Result call(String id, Map<String, ?> input) {
        String body = JSON.valueToTree(Map.of("type", "tool_use", "id", id, "name", "memory", "input", input)).toString();
        try {
            Answer answer = post(body);
            if (Set.of(0, 429, 502, 503, 504).contains(answer.status)) {
                Thread.sleep(1000);
                answer = post(body);
            }
            if (answer.status == 0) throw new IllegalStateException("no memory server answers at the URL");
            if (answer.status == 200) return new Result(answer.body.path("content").asText(), answer.body.has("is_error"));
            String reason = answer.body.at("/error/message").asText();
            throw new IllegalStateException("the memory server answered " + answer.status + ": " + reason);
        } catch (InterruptedException error) {
            throw new IllegalStateException("interrupted", error);
        }
    }

    private record Answer(int status, JsonNode body) {}

    private Answer post(String body) throws InterruptedException {
        try {
            var post = request.copy().POST(HttpRequest.BodyPublishers.ofString(body)).build();
            var answer = client.send(post, BodyHandlers.ofByteArray());
            var found = JSON.readTree(answer.body());
            boolean isOther = answer.statusCode() == 200 && !found.path("content").isTextual();
            return new Answer(isOther ? 0 : answer.statusCode(), found);
        } catch (IOException error) {
            return new Answer(0, null);
        }
    }

    // The SDK's runner calls these. They have no id and no error flag: the text of an error reply says what it is.
    @Override public String view(String path, Optional<List<Long>> range) {
        return text("view", "path", path, "view_range", range.orElse(null));
    }
    @Override public String create(String path, String text) {
        return text("create", "path", path, "file_text", text);
    }
    @Override public String strReplace(String path, String oldStr, String newStr) {
        return text("str_replace", "path", path, "old_str", oldStr, "new_str", newStr);
    }
    @Override public String insert(String path, long line, String text) {
        return text("insert", "path", path, "insert_line", line, "insert_text", text);
    }
    @Override public String delete(String path) {
        return text("delete", "path", path);
    }
    @Override public String rename(String oldPath, String newPath) {
        return text("rename", "old_path", oldPath, "new_path", newPath);
    }

    private String text(String command, Object... fields) {
        Map<String, Object> input = new HashMap<>(Map.of("command", command));
        for (int at = 0; at < fields.length; at += 2) input.put((String) fields[at], fields[at + 1]);
        return call("toolu_" + UUID.randomUUID().toString().replace("-", ""), input).content();
    }
}
