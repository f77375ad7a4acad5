// Search without a server: of pages that are read from a disk browsers let no script run as a worker. A hidden frame runs it.
// The offline plugin of the theme would load a script of this name from another host, and leaves it if there is one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inside;

    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      // What the script posts goes to whoever has made the worker, not to the frame itself.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.#inside = new Promise((started) => {
        const element = frame.contentDocument.createElement("script");
        element.onload = () => started(inside);
        element.src = script;
        frame.contentDocument.documentElement.append(element);
      });
    }

    postMessage(data) {
      this.#inside.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
